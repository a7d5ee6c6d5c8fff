package oracle;

import com.google.gson.Gson;
import com.google.gson.GsonBuilder;
import com.google.gson.JsonObject;
import com.google.gson.JsonParser;
import java.io.BufferedReader;
import java.io.FileDescriptor;
import java.io.FileOutputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.TimeUnit;
import org.apache.hadoop.hive.conf.HiveConf;
import org.apache.hadoop.hive.metastore.DatabaseProduct;

/**
 * An embedded Hive (query engine, metastore, compactor) that answers requests until its standard input ends.
 *
 * <p>A request is one line of JSON: {@code {"id": 7, "session": "main", "do": "sql", "sql": "select 1"}}; see
 * {@link HiveSession#handle}. The answer is one line with the same id and either the result or {@code "error"}. Sessions
 * come into being when first named; requests to different sessions run at the same time, so answers may change places.
 *
 * <p>Arguments: JDBC URL of the metastore database, warehouse directory, scratch directory, then settings (key=value).
 */
public final class HiveProcess {
  private static final Gson JSON = new GsonBuilder().serializeNulls().disableHtmlEscaping().create();
  private static final Map<String, HiveSession> SESSIONS = new LinkedHashMap<>();
  private static PrintStream answers;
  private static String metastore;
  private static String warehouse;
  private static String scratch;
  private static final Map<String, String> EXTRA = new LinkedHashMap<>();

  public static void main(String[] arguments) throws Exception {
    answers = new PrintStream(new FileOutputStream(FileDescriptor.out), true, StandardCharsets.UTF_8);
    System.setOut(System.err);   // nothing but answers on standard output
    metastore = arguments[0];
    warehouse = arguments[1];
    scratch = arguments[2];
    for (int i = 3; i < arguments.length; i++) {
      String[] setting = arguments[i].split("=", 2);
      EXTRA.put(setting[0], setting[1]);
    }
    TypedNullDriver.install();
    // Hive finds out lazily which database it talks to, in a race with the thread that loads statistics
    DatabaseProduct.determineDatabaseProduct("postgresql", settings());

    BufferedReader requests = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
    for (String line = requests.readLine(); line != null; line = requests.readLine()) {
      JsonObject request = JsonParser.parseString(line).getAsJsonObject();
      HiveSession session =
          SESSIONS.computeIfAbsent(request.get("session").getAsString(), name -> new HiveSession(settings()));
      session.thread.execute(() -> answer(session, request));
    }
    close();
    Runtime.getRuntime().halt(0);   // pools and timers of Hive would keep the process alive
  }

  private static void answer(HiveSession session, JsonObject request) {
    JsonObject answer;
    try {
      answer = session.handle(request);
    } catch (Throwable e) {
      e.printStackTrace();
      answer = new JsonObject();
      answer.addProperty("error", message(e));
    }
    answer.add("id", request.get("id"));
    synchronized (answers) {
      answers.println(JSON.toJson(answer));
    }
  }

  private static String message(Throwable e) {
    Throwable cause = e;
    while (cause.getCause() != null && cause.getCause() != cause) {
      cause = cause.getCause();
    }
    String text = e.getMessage() == null ? e.toString() : e.getMessage();
    return cause == e || cause.getMessage() == null || text.contains(cause.getMessage()) ? text : text + "; cause: " + cause;
  }

  private static void close() throws InterruptedException {
    for (HiveSession session : SESSIONS.values()) {
      ExecutorService thread = session.thread;
      thread.submit(() -> {
        session.close();
        return null;
      });
      thread.shutdown();
      thread.awaitTermination(10, TimeUnit.SECONDS);
    }
  }

  private static HiveConf settings() {
    HiveConf conf = new HiveConf(HiveProcess.class);
    conf.set("javax.jdo.option.ConnectionURL", metastore);
    conf.set("javax.jdo.option.ConnectionDriverName", "org.postgresql.Driver");
    conf.set("javax.jdo.option.ConnectionUserName", "postgres");
    conf.set("javax.jdo.option.ConnectionPassword", "");
    conf.set("fs.defaultFS", "file:///");
    conf.set("fs.file.impl", LocalFilesWithoutChecksums.class.getName());
    for (String prefix : new String[] {"", "hive."}) {
      conf.set(prefix + "metastore.warehouse.dir", "file:" + warehouse);
      conf.set(prefix + "metastore.warehouse.external.dir", "file:" + warehouse + "_external");
    }
    conf.set("hadoop.tmp.dir", scratch + "/hadoop");
    conf.set("hive.exec.scratchdir", scratch + "/queries");
    conf.set("hive.exec.local.scratchdir", scratch + "/local");
    conf.set("hive.downloaded.resources.dir", scratch + "/resources");
    conf.set("hive.querylog.location", scratch + "/log");
    conf.set("hive.user.install.directory", scratch + "/user");
    conf.set("mapreduce.cluster.local.dir", scratch + "/mapreduce");
    conf.set("hive.execution.engine", "tez");
    EXTRA.forEach(conf::set);
    return conf;
  }

  private HiveProcess() {}
}
