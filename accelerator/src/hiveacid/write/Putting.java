package hiveacid.write;

import java.io.IOException;
import java.io.InputStream;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.util.Arrays;
import java.util.concurrent.CompletableFuture;
import org.apache.hadoop.fs.MultipartUploader;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.UploadHandle;

/** Hadoop's call for one part of an upload: since 3.4.2 it wants to know whether the part is the last one. */
final class Putting {
  private static final Method PUT =
      Arrays.stream(MultipartUploader.class.getMethods()).filter(m -> m.getName().equals("putPart")).findFirst().get();
  private static final boolean ASKS_FOR_LAST = PUT.getParameterCount() == 6;

  private Putting() {}

  static CompletableFuture<?> put(
      MultipartUploader uploader, UploadHandle handle, Path path, int number, boolean isLast, PartFile part)
      throws IOException {
    InputStream content = part.open();
    Object[] arguments =
        ASKS_FOR_LAST
            ? new Object[] {handle, number, isLast, path, content, part.length()}
            : new Object[] {handle, number, path, content, part.length()};
    try {
      return (CompletableFuture<?>) PUT.invoke(uploader, arguments);
    } catch (InvocationTargetException failure) {
      content.close();
      if (failure.getCause() instanceof IOException cause) {
        throw cause;
      }
      throw new IOException(failure.getCause());
    } catch (IllegalAccessException failure) {
      throw new IOException(failure);
    }
  }
}
