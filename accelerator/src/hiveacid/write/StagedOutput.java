package hiveacid.write;

import java.io.IOException;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;

/** A file of staging; publishing gives it its name. */
record StagedOutput(Path path, Layout layout) implements Output {
  @Override
  public FileSystem files() throws IOException {
    return path.getFileSystem(layout.conf());
  }

  @Override
  public long size() throws IOException {
    return layout.size(path);
  }

  @Override
  public String upload() {
    return "";
  }

  @Override
  public void discard() throws IOException {
    layout.delete(path.toString());
  }
}
