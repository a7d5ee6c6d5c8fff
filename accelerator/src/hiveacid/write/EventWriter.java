package hiveacid.write;

import java.io.IOException;
import java.util.List;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.connector.write.DataWriter;
import org.apache.spark.sql.connector.write.DataWriterFactory;
import org.apache.spark.sql.connector.write.WriterCommitMessage;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/**
 * Events as they are, of a compaction that Spark has sorted: write id, bucket value and number of the row, the write id
 * that made the event, and for insert events the data columns. A task has the events of one bucket, in the order of their
 * rows; its file is the bucket's.
 *
 * <p>Options: {@code operation} of all events; {@code directory}, the final name of the directory, where files are
 * uploaded under their final names.
 */
final class EventWriter implements DataWriter<InternalRow> {
  private static final Fill[] NO_COLUMNS = {};

  private final Layout layout;
  private final int operation;
  private final String directory;
  private final String name;
  private EventFile file;
  private Written.Part part;

  private EventWriter(Layout layout, int operation, String directory, String name) {
    this.layout = layout;
    this.operation = operation;
    this.directory = directory;
    this.name = name;
  }

  static DataWriterFactory factory(Layout layout, CaseInsensitiveStringMap options) {
    int operation = options.getInt("operation", AcidFile.INSERT);
    String directory = options.get("directory");
    return (task, attempt) -> new EventWriter(layout, operation, directory, "part-" + task + "-" + attempt + ".orc");
  }

  @Override
  public void write(InternalRow event) throws IOException {
    if (file == null) {
      int bucket = Layout.decode(event.getInt(1));
      Output output = layout.output(name, directory == null ? null : FinalNames.of(directory, bucket));
      Fill[] columns = operation == AcidFile.DELETE ? NO_COLUMNS : Fill.of(layout.row);
      file = new EventFile(layout, columns, output, bucket, operation);
    }
    file.add(event);
  }

  @Override
  public WriterCommitMessage commit() throws IOException {
    if (file != null) {
      part = file.finish();
      file = null;
    }
    return new Written.OfTask(part == null ? List.of() : List.of(part), null);
  }

  @Override
  public void abort() throws IOException {
    if (part != null) {
      layout.delete(part);
    }
    if (file != null) {
      file.discard();
      file = null;
    }
  }

  @Override
  public void close() throws IOException {
    if (file != null) {
      file.close();
    }
  }
}
