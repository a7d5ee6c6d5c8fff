package hiveacid.read;

import java.io.Serializable;
import java.util.List;

/** The delete files of one bucket of one partition: all that can hit its rows. */
record DeleteGroup(String scan, int partition, int bucket, List<DataFile> files) implements Serializable {}
