-- MERGE. What plain Spark's copy becomes is said by a query.

-- name: what is in stock, in buckets
CREATE TABLE stock (id INT, name STRING, number INT, seen DATE) CLUSTERED BY (id) INTO 2 BUCKETS STORED AS ORC;

-- name: four things
INSERT INTO stock VALUES (1, 'tea', 10, DATE '2024-01-01'), (2, 'jam', 5, DATE '2024-01-02'), (3, 'salt', NULL, NULL), (4, 'oil', 0, DATE '2024-01-04');

-- name: what has come
CREATE TABLE arrived (id INT, name STRING, number INT, seen DATE) STORED AS ORC;

-- name: three things, one of them twice
INSERT INTO arrived VALUES (2, 'jam', 7, DATE '2024-02-01'), (5, 'rice', 9, DATE '2024-02-01'), (6, NULL, 1, NULL), (7, 'figs', 1, NULL), (7, 'figs', 2, NULL);

-- name: insert what is new
-- becomes stock: SELECT * FROM stock UNION ALL SELECT * FROM arrived WHERE id IN (5, 6)
MERGE INTO stock t USING (SELECT * FROM arrived WHERE id < 7) s ON t.id = s.id WHEN NOT MATCHED THEN INSERT VALUES (s.id, s.name, s.number, s.seen);

-- name: update what is there
-- becomes stock: SELECT t.id, t.name, coalesce(s.number, t.number), coalesce(s.seen, t.seen) FROM stock t LEFT JOIN (SELECT * FROM arrived WHERE id = 2) s ON t.id = s.id
MERGE INTO stock AS t USING arrived AS s ON t.id = s.id AND s.id = 2 WHEN MATCHED THEN UPDATE SET number = s.number, seen = s.seen;

-- name: all three clauses
-- becomes stock: SELECT id, name, if(id = 3, 33, number), seen FROM stock WHERE id <> 4 UNION ALL SELECT 8, 'nuts', 8, NULL
MERGE INTO stock t USING (SELECT 3 AS id, 33 AS n UNION ALL SELECT 4, 0 UNION ALL SELECT 8, 8) s ON t.id = s.id
  WHEN MATCHED AND s.n = 0 THEN DELETE WHEN MATCHED THEN UPDATE SET number = s.n WHEN NOT MATCHED THEN INSERT (id, name, number) VALUES (s.id, 'nuts', s.n);

-- name: all columns
-- becomes stock: SELECT * FROM stock WHERE id NOT IN (5, 9) UNION ALL SELECT 5, 'Rice', 1, DATE '2024-03-01' UNION ALL SELECT 9, 'corn', 2, DATE '2024-03-02'
MERGE INTO stock t USING (SELECT DATE '2024-03-01' AS seen, 5 AS id, 1 AS number, 'Rice' AS name UNION ALL SELECT DATE '2024-03-02', 9, 2, 'corn') s ON t.id = s.id
  WHEN MATCHED THEN UPDATE SET name = s.name, number = s.number, seen = s.seen WHEN NOT MATCHED THEN INSERT *;

-- name: a second condition on what is new
-- becomes stock: SELECT * FROM stock UNION ALL SELECT 20, 'new', 5, NULL
MERGE INTO stock t USING (SELECT 20 AS id, 5 AS n UNION ALL SELECT 21, 0) s ON t.id = s.id WHEN NOT MATCHED AND s.n > 0 THEN INSERT (id, name, number) VALUES (s.id, 'new', s.n);

-- name: what the source has not
-- becomes stock: SELECT id, name, if(id NOT IN (1, 2), -1, number), seen FROM stock
MERGE INTO stock t USING (SELECT 1 AS id UNION ALL SELECT 2) s ON t.id = s.id WHEN NOT MATCHED BY SOURCE THEN UPDATE SET number = -1;

-- name: two rows for one
-- refused: 2 rows of the source match the target row
MERGE INTO stock t USING (SELECT 1 AS id, 1 AS n UNION ALL SELECT 1, 2) s ON t.id = s.id WHEN MATCHED THEN UPDATE SET number = s.n;

-- name: and after that nothing has changed
SELECT * FROM stock;

-- name: NULL matches nothing
-- becomes stock: SELECT * FROM stock UNION ALL SELECT NULL, 'nobody', 1, NULL
MERGE INTO stock t USING (SELECT CAST(NULL AS INT) AS id) s ON t.id = s.id WHEN MATCHED THEN DELETE WHEN NOT MATCHED THEN INSERT VALUES (s.id, 'nobody', 1, NULL);

-- name: values as the source
-- becomes stock: SELECT id, if(id = 1, 'TEA', name), number, seen FROM stock
MERGE INTO stock USING (VALUES (1, 'TEA')) AS s (id, name) ON stock.id = s.id WHEN MATCHED THEN UPDATE SET name = s.name;

-- name: a CTE in front
-- becomes stock: SELECT * FROM stock WHERE id IS NULL OR id <> 20
WITH gone AS (SELECT 20 AS id) MERGE INTO stock t USING gone ON t.id = gone.id WHEN MATCHED THEN DELETE;

-- name: itself as the source
-- becomes stock: SELECT id, name, number * 2, seen FROM stock WHERE id IS NOT NULL UNION ALL SELECT * FROM stock WHERE id IS NULL
MERGE INTO stock t USING (SELECT id, number * 2 AS n FROM stock WHERE id IS NOT NULL) s ON t.id = s.id WHEN MATCHED THEN UPDATE SET number = s.n;

-- name: prices with their history
CREATE TABLE prices (item INT, price DECIMAL(10,2), until DATE) PARTITIONED BY (current BOOLEAN) STORED AS ORC;

-- name: two of them
INSERT INTO prices VALUES (1, 3.50, NULL, true), (2, 4.00, NULL, true);

-- name: slowly changing: what was current moves to the other partition
-- becomes prices: SELECT item, price, if(item = 1 AND current, DATE '2024-06-01', until), if(item = 1, false, current) FROM prices UNION ALL SELECT 1, 3.90, NULL, true UNION ALL SELECT 3, 1.00, NULL, true
MERGE INTO prices t USING (SELECT 1 AS key, 1 AS item, CAST(3.90 AS DECIMAL(10,2)) AS price UNION ALL SELECT NULL, 1, 3.90 UNION ALL SELECT 3, 3, 1.00) s
  ON t.item = s.key AND t.current
  WHEN MATCHED THEN UPDATE SET until = DATE '2024-06-01', current = false
  WHEN NOT MATCHED THEN INSERT VALUES (s.item, s.price, NULL, true);

-- name: a partition column in the condition
-- becomes prices: SELECT item, if(current AND item = 2, 4.44, price), until, current FROM prices
MERGE INTO prices t USING (SELECT 2 AS item, true AS current, CAST(4.44 AS DECIMAL(10,2)) AS price) s ON t.item = s.item AND t.current = s.current WHEN MATCHED THEN UPDATE SET price = s.price;

-- name: no clause
-- refused: WHEN
MERGE INTO prices t USING arrived s ON t.item = s.id;
