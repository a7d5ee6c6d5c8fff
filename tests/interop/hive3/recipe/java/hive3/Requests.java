package hive3;

import java.io.BufferedReader;
import java.io.FileDescriptor;
import java.io.FileOutputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.concurrent.atomic.AtomicBoolean;
import org.apache.hadoop.hive.conf.HiveConf;
import org.apache.hadoop.hive.metastore.api.AbortTxnRequest;
import org.apache.hadoop.hive.metastore.api.AllocateTableWriteIdsRequest;
import org.apache.hadoop.hive.metastore.api.CheckLockRequest;
import org.apache.hadoop.hive.metastore.api.CommitTxnRequest;
import org.apache.hadoop.hive.metastore.api.DataOperationType;
import org.apache.hadoop.hive.metastore.api.GetValidWriteIdsRequest;
import org.apache.hadoop.hive.metastore.api.HeartbeatRequest;
import org.apache.hadoop.hive.metastore.api.LockComponent;
import org.apache.hadoop.hive.metastore.api.LockLevel;
import org.apache.hadoop.hive.metastore.api.LockRequest;
import org.apache.hadoop.hive.metastore.api.LockResponse;
import org.apache.hadoop.hive.metastore.api.LockType;
import org.apache.hadoop.hive.metastore.api.OpenTxnRequest;
import org.apache.hadoop.hive.metastore.api.ShowCompactRequest;
import org.apache.hadoop.hive.metastore.api.ShowCompactResponseElement;
import org.apache.hadoop.hive.metastore.txn.TxnStore;
import org.apache.hadoop.hive.metastore.txn.TxnUtils;
import org.apache.hadoop.hive.ql.Driver;
import org.apache.hadoop.hive.ql.QueryState;
import org.apache.hadoop.hive.ql.processors.CommandProcessorResponse;
import org.apache.hadoop.hive.ql.session.SessionState;
import org.apache.hadoop.hive.ql.txn.compactor.Cleaner;
import org.apache.hadoop.hive.ql.txn.compactor.Worker;

/**
 * An embedded Hive 3 that answers requests until its standard input ends, one after the other.
 *
 * <p>A request is one line of fields with tabs between: what to do, then its arguments. The answer is a line for each row,
 * then one that begins with {@code =}: nothing behind it, or the error.
 *
 * <p>Arguments: JDBC URL of the metastore database, warehouse directory, scratch directory.
 */
public final class Requests {
  private static HiveConf conf;
  private static TxnStore store;
  private static Cleaner cleaner;

  public static void main(String[] arguments) throws Exception {
    PrintStream answers = new PrintStream(new FileOutputStream(FileDescriptor.out), true, StandardCharsets.UTF_8);
    System.setOut(System.err);   // nothing but answers on standard output
    conf = settings(arguments[0], arguments[1], arguments[2]);
    SessionState session = new SessionState(conf);
    session.setIsSilent(true);
    SessionState.start(session);
    store = TxnUtils.getTxnStore(conf);
    BufferedReader requests = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
    for (String line = requests.readLine(); line != null; line = requests.readLine()) {
      String end = "=";
      try {
        for (String row : handle(line.split("\t", -1))) {
          answers.println(row.replace("\\", "\\\\").replace("\n", "\\n"));
        }
      } catch (Throwable failure) {
        failure.printStackTrace();
        end = "=" + String.valueOf(failure.getMessage() == null ? failure : failure.getMessage()).replace("\n", " ");
      }
      answers.println(end);
    }
    Runtime.getRuntime().halt(0);   // pools of Hive would keep the process alive
  }

  private static List<String> handle(String[] request) throws Exception {
    switch (request[0]) {
      case "sql":
        return sql(request[1]);
      case "set":
        conf.set(request[1], request[2]);
        return Collections.emptyList();
      case "open":
        return texts(store.openTxns(new OpenTxnRequest(Integer.parseInt(request[1]), "hive3", "localhost")).getTxn_ids());
      case "commit":
        store.commitTxn(new CommitTxnRequest(Long.parseLong(request[1])));
        return Collections.emptyList();
      case "abort":
        store.abortTxn(new AbortTxnRequest(Long.parseLong(request[1])));
        return Collections.emptyList();
      case "heartbeat": {
        HeartbeatRequest beat = new HeartbeatRequest();
        beat.setTxnid(Long.parseLong(request[1]));
        store.heartbeat(beat);
        return Collections.emptyList();
      }
      case "lock":
        return lock(Long.parseLong(request[1]), request[2], request[3], request[4], request[5]);
      case "check":
        return answer(store.checkLock(new CheckLockRequest(Long.parseLong(request[1]))));
      case "write_id": {
        AllocateTableWriteIdsRequest ask = new AllocateTableWriteIdsRequest(request[2], request[3]);
        ask.setTxnIds(Collections.singletonList(Long.parseLong(request[1])));
        return Collections.singletonList("" + store.allocateTableWriteIds(ask).getTxnToWriteIds().get(0).getWriteId());
      }
      case "txns":
        return Collections.singletonList(txns());
      case "write_ids": {
        GetValidWriteIdsRequest ask = new GetValidWriteIdsRequest(Collections.singletonList(request[1]), txns());
        return Collections.singletonList(
            TxnUtils.createValidReaderWriteIdList(store.getValidWriteIds(ask).getTblValidWriteIds().get(0)).writeToString());
      }
      case "compactions": {
        List<String> rows = new ArrayList<>();
        for (ShowCompactResponseElement each : store.showCompact(new ShowCompactRequest()).getCompacts()) {
          rows.add(each.getDbname() + "." + each.getTablename() + " " + each.getType() + " " + each.getState());
        }
        return rows;
      }
      case "worker":
        return work();
      case "cleaner":
        return clean();
      case "house_keeper":
        store.performTimeOuts();
        store.cleanEmptyAbortedTxns();
        store.cleanTxnToWriteIdTable();
        store.performWriteSetGC();
        return Collections.emptyList();
      default:
        throw new IllegalArgumentException("unknown request " + request[0]);
    }
  }

  private static List<String> sql(String statement) throws Exception {
    Driver driver = new Driver(new QueryState.Builder().withHiveConf(conf).nonIsolated().build(), "hive3");
    try {
      CommandProcessorResponse response = driver.run(statement);
      if (response.getResponseCode() != 0) {
        throw new IllegalStateException(response.getErrorMessage());
      }
      List<String> all = new ArrayList<>();
      List<String> some = new ArrayList<>();
      while (driver.getResults(some)) {
        all.addAll(some);
        some.clear();
      }
      return all;
    } finally {
      driver.close();
      driver.destroy();
    }
  }

  private static List<String> lock(long txn, String database, String table, String type, String operation) throws Exception {
    LockComponent component = new LockComponent(LockType.valueOf(type), LockLevel.TABLE, database);
    component.setTablename(table);
    component.setOperationType(DataOperationType.valueOf(operation));
    component.setIsTransactional(true);
    LockRequest request = new LockRequest(Collections.singletonList(component), "hive3", "localhost");
    request.setTxnid(txn);
    return answer(store.lock(request));
  }

  private static List<String> answer(LockResponse response) {
    return List.of("" + response.getLockid(), response.getState().name());
  }

  private static String txns() throws Exception {
    return TxnUtils.createValidReadTxnList(store.getOpenTxns(), 0).writeToString();
  }

  private static List<String> work() throws Exception {
    Worker worker = new Worker();
    worker.setThreadId((int) worker.getId());
    worker.setConf(conf);
    worker.init(new AtomicBoolean(true), new AtomicBoolean());
    worker.run();
    return Collections.emptyList();
  }

  /** A pass of one Cleaner that remembers, as Hive's does, which locks there were when it first saw a compaction. */
  private static List<String> clean() throws Exception {
    if (cleaner == null) {
      cleaner = new Cleaner();
      cleaner.setThreadId((int) cleaner.getId());
      cleaner.setConf(conf);
      cleaner.init(new AtomicBoolean(true), new AtomicBoolean());
    }
    cleaner.run();
    return Collections.emptyList();
  }

  private static List<String> texts(List<?> values) {
    List<String> texts = new ArrayList<>();
    values.forEach(value -> texts.add(String.valueOf(value)));
    return texts;
  }

  private static HiveConf settings(String metastore, String warehouse, String scratch) {
    HiveConf made = new HiveConf(Requests.class);
    made.set("javax.jdo.option.ConnectionURL", metastore);
    boolean mysql = metastore.startsWith("jdbc:mysql:");
    made.set("javax.jdo.option.ConnectionDriverName", mysql ? "com.mysql.cj.jdbc.Driver" : "org.postgresql.Driver");
    made.set("javax.jdo.option.ConnectionUserName", mysql ? "hive" : "postgres");
    made.set("javax.jdo.option.ConnectionPassword", "none");
    made.set("metastore.warehouse.dir", "file:" + warehouse);
    made.set("hive.metastore.warehouse.dir", "file:" + warehouse);
    made.set("fs.defaultFS", "file:///");
    made.set("hadoop.tmp.dir", scratch + "/hadoop");
    made.set("hive.exec.scratchdir", scratch + "/queries");
    made.set("hive.exec.local.scratchdir", scratch + "/local");
    made.set("hive.downloaded.resources.dir", scratch + "/resources");
    made.set("hive.querylog.location", scratch + "/log");
    made.set("mapreduce.cluster.local.dir", scratch + "/mapreduce");
    made.set("mapreduce.jobtracker.staging.root.dir", scratch + "/staging");
    made.set("mapreduce.framework.name", "local");
    made.set("mapreduce.job.reduces", "1");
    made.set("hive.execution.engine", "mr");
    made.set("hive.exec.submitviachild", "false");
    made.set("hive.exec.mode.local.auto", "true");
    made.set("hive.support.concurrency", "true");
    made.set("hive.txn.manager", "org.apache.hadoop.hive.ql.lockmgr.DbTxnManager");
    made.set("hive.exec.dynamic.partition.mode", "nonstrict");
    made.set("hive.stats.autogather", "false");
    made.set("hive.security.authorization.enabled", "false");
    made.set("hive.server2.enable.doAs", "false");
    return made;
  }
}
