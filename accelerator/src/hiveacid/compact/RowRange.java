package hiveacid.compact;

import java.io.Serializable;

/** Rows of a file by their places in it: {@code from} is the first, {@code to} the one after the last. */
public record RowRange(long from, long to) implements Serializable {}
