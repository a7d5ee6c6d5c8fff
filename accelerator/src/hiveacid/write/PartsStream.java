package hiveacid.write;

import java.io.IOException;
import java.io.OutputStream;
import java.util.concurrent.CompletableFuture;
import org.apache.hadoop.conf.Configuration;

/** What is written goes away in parts of equal size, of which one is sent while the next one is written. */
final class PartsStream extends OutputStream {
  /** S3's smallest part, except for the last one. */
  private static final long SMALLEST = 5L << 20;

  private final long most;
  private final Configuration conf;
  private final Sender sender;
  private final Ender ender;
  private PartFile part;
  private PartFile sent;
  private CompletableFuture<?> sending;
  private int number;
  private long written;
  private boolean closed;

  interface Sender {
    CompletableFuture<?> put(PartFile part, int number, boolean isLast) throws IOException;
  }

  interface Ender {
    void ended() throws IOException;
  }

  PartsStream(Configuration conf, Sender sender, Ender ender) throws IOException {
    this.most = Math.max(SMALLEST, conf.getLongBytes("fs.s3a.multipart.size", 64L << 20));
    this.conf = conf;
    this.sender = sender;
    this.ender = ender;
    this.part = new PartFile(most, conf);
  }

  long written() {
    return written;
  }

  @Override
  public void write(int one) throws IOException {
    write(new byte[] {(byte) one}, 0, 1);
  }

  @Override
  public void write(byte[] bytes, int offset, int count) throws IOException {
    int done = 0;
    while (done < count) {
      if (part.length() == most) {
        send(false);
        part = new PartFile(most, conf);
      }
      int now = (int) Math.min(count - done, most - part.length());
      part.write(bytes, offset + done, now);
      done += now;
    }
    written += count;
  }

  private void send(boolean isLast) throws IOException {
    finishSending();
    sent = part;
    sending = sender.put(sent, ++number, isLast);
  }

  private void finishSending() throws IOException {
    if (sending != null) {
      try {
        UploadOutput.await(sending);
      } finally {
        sending = null;
        sent.close();
      }
    }
  }

  @Override
  public void close() throws IOException {
    if (closed) {
      return;
    }
    closed = true;
    try {
      send(true);
      finishSending();
    } finally {
      part.close();
      if (sent != null) {
        sent.close();
      }
      ender.ended();
    }
  }
}
