package hiveacid.write;

import java.io.BufferedOutputStream;
import java.io.Closeable;
import java.io.File;
import java.io.FileInputStream;
import java.io.FileOutputStream;
import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.LocalDirAllocator;

/** A part of an upload on the local disk, where S3A keeps its own: a part that has to be sent again is read again. */
final class PartFile implements Closeable {
  private static final LocalDirAllocator DIRECTORIES = new LocalDirAllocator("fs.s3a.buffer.dir");

  private final File file;
  private final OutputStream out;
  private InputStream content;
  private long length;

  PartFile(long most, Configuration conf) throws IOException {
    file = DIRECTORIES.createTmpFileForWrite("hive-acid-part-", most, conf);
    out = new BufferedOutputStream(new FileOutputStream(file), 1 << 16);
  }

  void write(byte[] bytes, int offset, int count) throws IOException {
    out.write(bytes, offset, count);
    length += count;
  }

  long length() {
    return length;
  }

  /** Its content from the beginning; nothing is written any more. */
  InputStream open() throws IOException {
    out.close();
    if (content != null) {
      content.close();
    }
    content = new Repeatable(new FileInputStream(file));
    return content;
  }

  @Override
  public void close() throws IOException {
    try {
      out.close();
      if (content != null) {
        content.close();
      }
    } finally {
      Files.deleteIfExists(file.toPath());
    }
  }

  /** A file that can be read again from a mark, however far back that is. */
  private static final class Repeatable extends InputStream {
    private final FileInputStream file;
    private long mark;

    Repeatable(FileInputStream file) {
      this.file = file;
    }

    @Override
    public int read() throws IOException {
      return file.read();
    }

    @Override
    public int read(byte[] bytes, int offset, int count) throws IOException {
      return file.read(bytes, offset, count);
    }

    @Override
    public int available() throws IOException {
      return file.available();
    }

    @Override
    public boolean markSupported() {
      return true;
    }

    @Override
    public void mark(int limit) {
      try {
        mark = file.getChannel().position();
      } catch (IOException failure) {
        throw new UncheckedIOException(failure);
      }
    }

    @Override
    public void reset() throws IOException {
      file.getChannel().position(mark);
    }

    @Override
    public void close() throws IOException {
      file.close();
    }
  }
}
