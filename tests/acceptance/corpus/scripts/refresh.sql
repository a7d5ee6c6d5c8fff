-- TPC-H's refresh functions: RF1 brings new orders and their lines, RF2 takes old ones away; and both as MERGE.

-- name: RF1, new orders
INSERT INTO orders SELECT * FROM new_orders;

-- name: RF1, their lines
INSERT INTO lineitem SELECT * FROM new_lines;

-- name: RF2, lines of old orders
-- becomes lineitem: SELECT * FROM lineitem WHERE l_orderkey NOT IN (SELECT o_orderkey FROM old_orders)
DELETE FROM lineitem WHERE l_orderkey IN (SELECT o_orderkey FROM old_orders);

-- name: RF2, old orders
-- becomes orders: SELECT * FROM orders LEFT ANTI JOIN old_orders USING (o_orderkey)
MERGE INTO orders USING old_orders ON orders.o_orderkey = old_orders.o_orderkey WHEN MATCHED THEN DELETE;

-- name: the sums of the specification still fit
-- ordered
SELECT o_orderstatus, count(*) AS n, sum(o_totalprice) AS total FROM orders GROUP BY o_orderstatus ORDER BY o_orderstatus;

-- name: no line without its order
-- empty
SELECT l_orderkey FROM lineitem LEFT ANTI JOIN orders ON l_orderkey = o_orderkey;

-- name: RF1 again, as MERGE: what is there stays
-- becomes orders: SELECT * FROM orders
MERGE INTO orders t USING new_orders s ON t.o_orderkey = s.o_orderkey WHEN NOT MATCHED THEN INSERT *;

-- name: urgent orders of one clerk get another priority, which is their partition
-- becomes orders: SELECT o_orderkey, o_custkey, o_orderstatus, o_totalprice, o_orderdate, o_clerk, o_shippriority, o_comment,
--     CASE WHEN o_orderpriority = '1-URGENT' AND o_clerk = 'Clerk#000000003' THEN '2-HIGH' ELSE o_orderpriority END FROM orders
UPDATE orders SET o_orderpriority = '2-HIGH' WHERE o_orderpriority = '1-URGENT' AND o_clerk = 'Clerk#000000003';

-- name: upsert of orders, some of them in another partition
-- becomes orders: SELECT o_orderkey, o_custkey, o_orderstatus, o_totalprice, o_orderdate, o_clerk, o_shippriority,
--     if(n.o_orderkey IS NULL, o.o_comment, 'merged') AS o_comment, if(n.o_orderkey IS NULL, o.o_orderpriority, '5-LOW') AS o_orderpriority
--     FROM orders o LEFT JOIN (SELECT o_orderkey FROM new_orders) n USING (o_orderkey)
MERGE INTO orders t USING new_orders s ON t.o_orderkey = s.o_orderkey
  WHEN MATCHED THEN UPDATE SET o_comment = 'merged', o_orderpriority = '5-LOW' WHEN NOT MATCHED THEN INSERT *;
