package hiveacid.write;

import java.io.IOException;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;

/** Where the bytes of a file go: into a file of staging, or into an upload that only publishing can end. */
interface Output {
  Path path();

  /** What ORC's writer creates the file on. */
  FileSystem files() throws IOException;

  /** Bytes of the file, once its writer is closed. */
  long size() throws IOException;

  /** Id of the upload, empty for a file of staging. */
  String upload();

  /** Take back what was written. */
  void discard() throws IOException;
}
