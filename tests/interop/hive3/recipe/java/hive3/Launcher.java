package hive3;

import java.io.File;
import java.net.URL;
import java.net.URLClassLoader;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;

/**
 * Starts {@link Requests} in a class loader that Hive 3 can work with: it casts the loader of its classes to
 * URLClassLoader, which that of an application has not been since Java 9.
 *
 * <p>Arguments: directory of our classes, which go before Hive's own; directory of the jars; then those of Requests.
 */
public final class Launcher {
  public static void main(String[] arguments) throws Exception {
    List<URL> path = new ArrayList<>();
    path.add(new File(arguments[0]).toURI().toURL());
    File[] jars = new File(arguments[1]).listFiles((directory, name) -> name.endsWith(".jar"));
    Arrays.sort(jars);
    for (File jar : jars) {
      path.add(jar.toURI().toURL());
    }
    URLClassLoader loader = new URLClassLoader(path.toArray(new URL[0]), ClassLoader.getPlatformClassLoader());
    Thread.currentThread().setContextClassLoader(loader);
    String[] rest = Arrays.copyOfRange(arguments, 2, arguments.length);
    Class.forName("hive3.Requests", true, loader).getMethod("main", String[].class).invoke(null, (Object) rest);
  }
}
