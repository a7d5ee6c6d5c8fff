-- The tables of TPC-H as ACID tables, and those of its refresh functions. Partition columns come last, as in Hive.

CREATE TABLE region (r_regionkey INT, r_name CHAR(25), r_comment VARCHAR(152)) STORED AS ORC;

CREATE TABLE nation (n_nationkey INT, n_name CHAR(25), n_regionkey INT, n_comment VARCHAR(152)) STORED AS ORC;

CREATE TABLE supplier (s_suppkey INT, s_name CHAR(25), s_address VARCHAR(40), s_nationkey INT, s_phone CHAR(15),
  s_acctbal DECIMAL(15,2), s_comment VARCHAR(101)) STORED AS ORC;

CREATE TABLE part (p_partkey INT, p_name VARCHAR(55), p_mfgr CHAR(25), p_brand CHAR(10), p_type VARCHAR(25), p_size INT,
  p_container CHAR(10), p_retailprice DECIMAL(15,2), p_comment VARCHAR(23)) CLUSTERED BY (p_partkey) INTO 2 BUCKETS STORED AS ORC;

CREATE TABLE partsupp (ps_partkey INT, ps_suppkey INT, ps_availqty INT, ps_supplycost DECIMAL(15,2),
  ps_comment VARCHAR(199)) STORED AS ORC;

CREATE TABLE customer (c_custkey INT, c_name VARCHAR(25), c_address VARCHAR(40), c_nationkey INT, c_phone CHAR(15),
  c_acctbal DECIMAL(15,2), c_mktsegment CHAR(10), c_comment VARCHAR(117)) CLUSTERED BY (c_custkey) INTO 4 BUCKETS STORED AS ORC;

CREATE TABLE orders (o_orderkey BIGINT, o_custkey INT, o_orderstatus CHAR(1), o_totalprice DECIMAL(15,2), o_orderdate DATE,
  o_clerk CHAR(15), o_shippriority INT, o_comment VARCHAR(79)) PARTITIONED BY (o_orderpriority CHAR(15)) STORED AS ORC;

CREATE TABLE lineitem (l_orderkey BIGINT, l_partkey INT, l_suppkey INT, l_linenumber INT, l_quantity DECIMAL(15,2),
  l_extendedprice DECIMAL(15,2), l_discount DECIMAL(15,2), l_tax DECIMAL(15,2), l_returnflag CHAR(1), l_shipdate DATE,
  l_commitdate DATE, l_receiptdate DATE, l_shipinstruct CHAR(25), l_shipmode CHAR(10), l_comment VARCHAR(44))
  PARTITIONED BY (l_linestatus CHAR(1)) STORED AS ORC;

CREATE TABLE new_orders (o_orderkey BIGINT, o_custkey INT, o_orderstatus CHAR(1), o_totalprice DECIMAL(15,2), o_orderdate DATE,
  o_clerk CHAR(15), o_shippriority INT, o_comment VARCHAR(79), o_orderpriority CHAR(15)) STORED AS ORC;

CREATE TABLE new_lines (l_orderkey BIGINT, l_partkey INT, l_suppkey INT, l_linenumber INT, l_quantity DECIMAL(15,2),
  l_extendedprice DECIMAL(15,2), l_discount DECIMAL(15,2), l_tax DECIMAL(15,2), l_returnflag CHAR(1), l_shipdate DATE,
  l_commitdate DATE, l_receiptdate DATE, l_shipinstruct CHAR(25), l_shipmode CHAR(10), l_comment VARCHAR(44),
  l_linestatus CHAR(1)) STORED AS ORC;

CREATE TABLE old_orders (o_orderkey BIGINT) STORED AS ORC;
