package hiveacid.write;

import java.io.IOException;
import java.io.InterruptedIOException;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Future;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.BBUploadHandle;
import org.apache.hadoop.fs.FSDataOutputStream;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.FilterFileSystem;
import org.apache.hadoop.fs.MultipartUploader;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.UploadHandle;
import org.apache.hadoop.fs.permission.FsPermission;
import org.apache.hadoop.util.Progressable;

/**
 * A file that is uploaded in parts under its final name, through Hadoop's {@link MultipartUploader}. Nobody sees it, and
 * nothing here ends the upload: publishing does, after it has recorded the manifest (R4, R5), or ends it without a file.
 * Two attempts of a task have two uploads for one name; one of them is named by the job's result.
 */
final class UploadOutput implements Output {
  private final Path path;
  private final Configuration conf;
  private final FileSystem store;
  private MultipartUploader uploader;
  private UploadHandle handle;
  private PartsStream stream;

  /** @param path the final name */
  UploadOutput(Path path, Configuration conf) throws IOException {
    this.path = path;
    this.conf = conf;
    this.store = path.getFileSystem(conf);
  }

  @Override
  public Path path() {
    return path;
  }

  @Override
  public FileSystem files() {
    return new Uploading();
  }

  @Override
  public long size() {
    return stream.written();
  }

  @Override
  public String upload() {
    return new String(handle.toByteArray(), StandardCharsets.UTF_8);
  }

  @Override
  public void discard() throws IOException {
    if (handle != null) {
      try (MultipartUploader last = uploaderOf(store, path)) {
        await(last.abort(handle, path));
      }
    }
  }

  /** End an upload that this application has begun, without a file. */
  static void abort(Path path, String upload, Configuration conf) throws IOException {
    try (MultipartUploader uploader = uploaderOf(path.getFileSystem(conf), path)) {
      byte[] id = upload.getBytes(StandardCharsets.UTF_8);
      await(uploader.abort(BBUploadHandle.from(ByteBuffer.wrap(id)), path));
    }
  }

  private static MultipartUploader uploaderOf(FileSystem store, Path path) throws IOException {
    return store.createMultipartUploader(path.getParent()).build();
  }

  static <T> T await(Future<T> future) throws IOException {
    try {
      return future.get();
    } catch (InterruptedException stopped) {
      Thread.currentThread().interrupt();
      throw new InterruptedIOException("the task was stopped while it waited for an upload");
    } catch (ExecutionException failure) {
      if (failure.getCause() instanceof IOException cause) {
        throw cause;
      }
      throw new IOException(failure.getCause());
    }
  }

  /** The first part starts the upload: a file without any has none. */
  private CompletableFuture<?> put(PartFile part, int number, boolean isLast) throws IOException {
    if (handle == null) {
      uploader = uploaderOf(store, path);
      handle = await(uploader.startUpload(path));
    }
    return Putting.put(uploader, handle, path, number, isLast, part);
  }

  private void ended() throws IOException {
    if (uploader != null) {
      uploader.close();
    }
  }

  /** The store, but what is created is uploaded. */
  private final class Uploading extends FilterFileSystem {
    Uploading() {
      super(store);
    }

    @Override
    public FSDataOutputStream create(
        Path file, FsPermission permission, boolean overwrite, int bufferSize, short replication, long blockSize,
        Progressable progress) throws IOException {
      stream = new PartsStream(conf, UploadOutput.this::put, UploadOutput.this::ended);
      return new FSDataOutputStream(stream, null);
    }
  }
}
