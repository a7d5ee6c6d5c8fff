package hiveacid.compact;

import hiveacid.Footer;
import hiveacid.write.AcidFile;
import hiveacid.write.Key;
import hiveacid.write.Layout;
import java.io.Closeable;
import java.io.IOException;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.hive.ql.exec.vector.LongColumnVector;
import org.apache.hadoop.hive.ql.exec.vector.VectorizedRowBatch;
import org.apache.orc.OrcFile;
import org.apache.orc.Reader;
import org.apache.orc.RecordReader;
import org.apache.orc.TypeDescription;

/** The keys of a file by the places of its rows. The columns of the row are not read, so a look costs little. */
final class Keys implements Closeable {
  private final CompactionFile file;
  private final Reader reader;
  private final VectorizedRowBatch batch;
  private RecordReader records;
  private long first;

  Keys(CompactionFile file, Configuration conf) {
    this.file = file;
    try {
      reader = OrcFile.createReader(new Path(file.uri()), OrcFile.readerOptions(conf));
    } catch (IOException failure) {
      throw Events.unreadable(file, failure);
    }
    Footer.requireConsistent(file.uri(), reader);
    batch = Layout.withoutRow().createRowBatch();
  }

  long rows() {
    return reader.getNumberOfRows();
  }

  /** Whether any row can be looked at: without a row index there is no way back. */
  boolean canSeek() {
    return reader.getRowIndexStride() > 0;
  }

  /** The key of the row at a place. */
  Key at(long row) {
    try {
      if (records == null) {
        TypeDescription schema = Layout.withoutRow();
        records =
            reader.rows(
                reader.options().schema(schema).include(Layout.headerOf(schema)).isSchemaEvolutionCaseAware(false));
      }
      if (row < first || row >= first + batch.size) {
        records.seekToRow(row);
        if (!records.nextBatch(batch)) {
          throw new IOException("there is no row " + row);
        }
        first = row;
      }
      int at = (int) (row - first);
      return new Key(value(1, at), (int) value(2, at), value(3, at));
    } catch (IOException failure) {
      throw Events.unreadable(file, failure);
    }
  }

  private long value(int column, int row) {
    LongColumnVector vector = (LongColumnVector) batch.cols[column];
    return vector.vector[vector.isRepeating ? 0 : row];
  }

  /** How many rows, from the first on, have keys up to this one. */
  long countUpTo(Key key) {
    long low = 0;
    long high = rows();
    while (low < high) {
      long middle = (low + high) >>> 1;
      if (at(middle).compareTo(key) <= 0) {
        low = middle + 1;
      } else {
        high = middle;
      }
    }
    return low;
  }

  @Override
  public void close() throws IOException {
    try {
      if (records != null) {
        records.close();
      }
    } finally {
      reader.close();
    }
  }
}
