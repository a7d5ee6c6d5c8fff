/**
 * Reads snapshots of ACID tables as a Spark data source.
 *
 * <p>The files are opened with orc-core directly: with their own six columns, so that columns inside {@code row} can be
 * left out and predicates reach the row groups. Delete events are kept as bitmaps per write id and bucket, and deleted
 * rows are passed over by an index in front of the column vectors: no join, no copy. Which files make up the snapshot is
 * decided in {@code airflow_hive_acid/spark/read/files.py} and handed over as JSON by {@code spark/read/fast_reader.py}.
 */
package hiveacid.read;
