import com.google.gson.Gson;
import java.io.BufferedReader;
import java.io.FileDescriptor;
import java.io.FileOutputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.management.ManagementFactory;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import org.apache.hadoop.hive.conf.HiveConf;
import org.apache.hadoop.hive.metastore.DatabaseProduct;
import org.apache.hadoop.hive.metastore.LockComponentBuilder;
import org.apache.hadoop.hive.metastore.LockRequestBuilder;
import org.apache.hadoop.hive.metastore.api.AllocateTableWriteIdsRequest;
import org.apache.hadoop.hive.metastore.api.CheckLockRequest;
import org.apache.hadoop.hive.metastore.api.CommitTxnRequest;
import org.apache.hadoop.hive.metastore.api.DataOperationType;
import org.apache.hadoop.hive.metastore.api.LockRequest;
import org.apache.hadoop.hive.metastore.api.LockResponse;
import org.apache.hadoop.hive.metastore.api.LockState;
import org.apache.hadoop.hive.metastore.api.LockType;
import org.apache.hadoop.hive.metastore.api.OpenTxnRequest;
import org.apache.hadoop.hive.metastore.api.TxnAbortedException;
import org.apache.hadoop.hive.metastore.txn.TxnStore;
import org.apache.hadoop.hive.metastore.txn.TxnUtils;

/**
 * Hive's own four verbs of a write, called on its TxnStore without a network in between, for as long as it is told to.
 *
 * <p>A request is a line {@code OPERATION THREADS SECONDS}; the answer is a line of JSON with the txns done, the seconds
 * they took, the CPU seconds of this process and the milliseconds of each verb. The process stays warm between requests
 * and ends with its standard input. Arguments: JDBC URL, database user, number of tables. Run as a source file.
 */
public final class HiveVerbs {
  private static final String DATABASE = "db";
  private static final Gson JSON = new Gson();
  private final TxnStore store;
  private final int tables;

  private HiveVerbs(TxnStore store, int tables) {
    this.store = store;
    this.tables = tables;
  }

  public static void main(String[] arguments) throws Exception {
    PrintStream answers = new PrintStream(new FileOutputStream(FileDescriptor.out), true, StandardCharsets.UTF_8);
    System.setOut(System.err);   // nothing but answers on standard output
    HiveConf conf = new HiveConf(HiveVerbs.class);
    conf.set("javax.jdo.option.ConnectionURL", arguments[0]);
    boolean mysql = arguments[0].startsWith("jdbc:mysql:");
    String driver = mysql ? "com.mysql.cj.jdbc.Driver" : "org.postgresql.Driver";
    conf.set("javax.jdo.option.ConnectionDriverName", driver);
    conf.set("javax.jdo.option.ConnectionUserName", arguments[1]);
    conf.set("javax.jdo.option.ConnectionPassword", "");
    DatabaseProduct.determineDatabaseProduct(mysql ? "mysql" : "postgresql", conf);
    HiveVerbs verbs = new HiveVerbs(TxnUtils.getTxnStore(conf), Integer.parseInt(arguments[2]));
    BufferedReader requests = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
    for (String line = requests.readLine(); line != null; line = requests.readLine()) {
      String[] words = line.split(" ");
      DataOperationType operation = DataOperationType.valueOf(words[0].toUpperCase());
      answers.println(JSON.toJson(verbs.run(operation, Integer.parseInt(words[1]), Double.parseDouble(words[2]))));
    }
    Runtime.getRuntime().halt(0);   // pools and timers of Hive would keep the process alive
  }

  private Map<String, Object> run(DataOperationType operation, int threads, double seconds) throws Exception {
    ExecutorService pool = Executors.newFixedThreadPool(threads);
    long began = System.nanoTime();
    long cpu = cpuNanos();
    long end = began + (long) (seconds * 1e9);
    List<Callable<List<double[]>>> clients = new ArrayList<>();
    for (int i = 0; i < threads; i++) {
      clients.add(() -> client(operation, new Random(), end));
    }
    List<double[]> latencies = new ArrayList<>();
    for (Future<List<double[]>> client : pool.invokeAll(clients)) {
      latencies.addAll(client.get());
    }
    Map<String, Object> answer = new LinkedHashMap<>();
    answer.put("done", latencies.size());
    answer.put("seconds", (System.nanoTime() - began) / 1e9);
    answer.put("cpu", (cpuNanos() - cpu) / 1e9);
    answer.put("latencies", latencies);
    pool.shutdown();
    return answer;
  }

  private List<double[]> client(DataOperationType operation, Random random, long end) throws Exception {
    List<double[]> latencies = new ArrayList<>();
    while (System.nanoTime() < end) {
      latencies.add(write(operation, "t" + random.nextInt(tables)));
    }
    return latencies;
  }

  /** One write; how long each verb took, in milliseconds. A conflict ends the txn as well. */
  private double[] write(DataOperationType operation, String table) throws Exception {
    long[] at = new long[5];
    at[0] = System.nanoTime();
    long txn = store.openTxns(new OpenTxnRequest(1, "bench", "localhost")).getTxn_ids().get(0);
    at[1] = System.nanoTime();
    LockResponse lock = store.lock(request(txn, operation, table));
    while (lock.getState() == LockState.WAITING) {
      Thread.sleep(20);
      CheckLockRequest check = new CheckLockRequest(lock.getLockid());
      check.setTxnid(txn);
      lock = store.checkLock(check);
    }
    at[2] = System.nanoTime();
    AllocateTableWriteIdsRequest allocate = new AllocateTableWriteIdsRequest(DATABASE, table);
    allocate.setTxnIds(Collections.singletonList(txn));
    store.allocateTableWriteIds(allocate);
    at[3] = System.nanoTime();
    CommitTxnRequest commit = new CommitTxnRequest(txn);
    commit.setExclWriteEnabled(false);   // as DbTxnManager sends it; unset means no conflict check at all
    try {
      store.commitTxn(commit);
    } catch (TxnAbortedException conflict) {
      // The first committer won; this txn is over.
    }
    at[4] = System.nanoTime();
    double[] verbs = new double[4];
    for (int i = 0; i < verbs.length; i++) {
      verbs[i] = (at[i + 1] - at[i]) / 1e6;
    }
    return verbs;
  }

  private static LockRequest request(long txn, DataOperationType operation, String table) {
    LockComponentBuilder component = new LockComponentBuilder();
    component.setLock(LockType.SHARED_WRITE).setDbName(DATABASE).setTableName(table);
    component.setOperationType(operation).setIsTransactional(true);
    LockRequestBuilder request = new LockRequestBuilder("bench");
    return request.setTransactionId(txn).setUser("bench").addLockComponent(component.build()).build();
  }

  private static long cpuNanos() {
    return ((com.sun.management.OperatingSystemMXBean) ManagementFactory.getOperatingSystemMXBean()).getProcessCpuTime();
  }
}
