package hiveacid.copy;

import java.io.FileNotFoundException;
import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.util.HexFormat;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.LocalFileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.spark.deploy.SparkHadoopUtil;

/** Copies one file, verified on both sides; Spark's {@code reflect} calls it in tasks. */
public final class Copier {
  private static final int BUFFER = 1 << 20;

  private Copier() {}

  /**
   * Copies a file unless its target is whole already.
   *
   * @param expected {@code sha256:…} that the source must have; empty when nobody knows
   * @return JSON: checksum of the source, of what was written, the target's size, or what is missing
   */
  public static String copy(String source, String target, String expected) throws IOException {
    Configuration conf = SparkHadoopUtil.get().conf();
    Path from = new Path(source);
    Path to = new Path(target);
    FileSystem sourceSystem = raw(from.getFileSystem(conf));
    FileSystem targetSystem = raw(to.getFileSystem(conf));
    try {
      long size = sourceSystem.getFileStatus(from).getLen();
      if (targetSystem.exists(to) && targetSystem.getFileStatus(to).getLen() == size) {
        String there = hash(targetSystem.open(to), OutputStream.nullOutputStream());
        String known = expected.isEmpty() ? hash(sourceSystem.open(from), OutputStream.nullOutputStream()) : expected;
        if (there.equals(known)) {
          return "{\"checksum\":\"" + there + "\",\"size\":" + size + ",\"reused\":true}";
        }
      }
      String read = hash(sourceSystem.open(from), targetSystem.create(to, true, BUFFER));
      String written = hash(targetSystem.open(to), OutputStream.nullOutputStream());
      long length = targetSystem.getFileStatus(to).getLen();
      return "{\"checksum\":\"" + read + "\",\"written\":\"" + written + "\",\"size\":" + length + "}";
    } catch (FileNotFoundException error) {
      return "{\"missing\":true}";
    }
  }

  /** Without the checksum files that Hadoop keeps beside local files: others write these files, too. */
  private static FileSystem raw(FileSystem system) {
    return system instanceof LocalFileSystem local ? local.getRawFileSystem() : system;
  }

  /** Moves all bytes and returns their checksum; closes both. */
  private static String hash(InputStream input, OutputStream output) throws IOException {
    try (input; output) {
      MessageDigest digest = MessageDigest.getInstance("SHA-256");
      byte[] buffer = new byte[BUFFER];
      for (int count = input.read(buffer); count >= 0; count = input.read(buffer)) {
        digest.update(buffer, 0, count);
        output.write(buffer, 0, count);
      }
      return "sha256:" + HexFormat.of().formatHex(digest.digest());
    } catch (NoSuchAlgorithmException error) {
      throw new IllegalStateException(error);
    }
  }
}
