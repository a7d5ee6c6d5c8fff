-- Transactions and time travel.

-- name: a ledger
CREATE TABLE ledger (id INT, amount INT) STORED AS ORC;

-- name: its write id 1
INSERT INTO ledger VALUES (1, 10), (2, 20), (3, 30);

-- name: its write id 2
-- becomes ledger: SELECT id, if(id = 2, 25, amount) FROM ledger
UPDATE ledger SET amount = 25 WHERE id = 2;

-- name: its write id 3
-- becomes ledger: SELECT * FROM ledger WHERE id <> 1
DELETE FROM ledger WHERE id = 1;

-- name: as it was first
-- plain: SELECT * FROM VALUES (1, 10), (2, 20), (3, 30) AS l (id, amount)
SELECT * FROM ledger VERSION AS OF 1;

-- name: Hive's and SQL's words
-- plain: SELECT * FROM VALUES (1, 10), (2, 25), (3, 30) AS l (id, amount)
SELECT * FROM ledger FOR SYSTEM_VERSION AS OF 2;

-- name: now and then
-- plain: SELECT * FROM VALUES (2, 25, 20), (3, 30, 30) AS l (id, now, then)
SELECT n.id, n.amount AS now, o.amount AS then FROM ledger n JOIN ledger FOR VERSION AS OF 1 o ON n.id = o.id;

-- name: what has gone
-- plain: SELECT 1 AS id
SELECT id FROM ledger VERSION AS OF 1 EXCEPT SELECT id FROM ledger;

-- name: brought back
-- becomes ledger: SELECT * FROM ledger UNION ALL SELECT 1, 10
INSERT INTO ledger SELECT * FROM ledger VERSION AS OF 1 WHERE id NOT IN (SELECT id FROM ledger);

-- name: a table of an earlier state
-- plain: CREATE TABLE before USING parquet AS SELECT * FROM VALUES (1, 10), (2, 20), (3, 30) AS l (id, amount)
CREATE TABLE before STORED AS ORC AS SELECT * FROM ledger VERSION AS OF 1;

-- name: a write id that is not there
-- refused: 999
SELECT * FROM ledger VERSION AS OF 999;

-- name: two tables in one transaction
-- becomes ledger: SELECT id, amount - 1 FROM ledger UNION ALL SELECT 50, 0
-- becomes before: SELECT id, amount + 1 FROM before
BEGIN; UPDATE ledger SET amount = amount - 1; UPDATE before SET amount = amount + 1; INSERT INTO ledger VALUES (50, 0); COMMIT;

-- name: it sees its own rows
-- becomes before: SELECT * FROM before UNION ALL SELECT id, amount FROM ledger
START TRANSACTION; INSERT INTO before SELECT id, amount FROM ledger; UPDATE ledger SET amount = 0 WHERE id = 1000; COMMIT;

-- name: and takes all back
-- becomes ledger: SELECT * FROM ledger
-- becomes before: SELECT * FROM before
BEGIN; DELETE FROM ledger; INSERT INTO before VALUES (7, 7); ROLLBACK;

-- name: changes of one row in one transaction
-- becomes ledger: SELECT id, if(id = 2, 103, amount) FROM ledger
BEGIN; UPDATE ledger SET amount = 100 WHERE id = 2; UPDATE ledger SET amount = amount + 1 WHERE id = 2; UPDATE ledger SET amount = amount + 2 WHERE id = 2; COMMIT;

-- name: inserted and deleted in one transaction
-- becomes ledger: SELECT * FROM ledger
BEGIN; INSERT INTO ledger VALUES (70, 1), (71, 2); DELETE FROM ledger WHERE id >= 70; COMMIT;

-- name: emptied and filled in one transaction
-- becomes before: SELECT 1, 1
BEGIN; TRUNCATE TABLE before; INSERT INTO before VALUES (1, 1); COMMIT;
