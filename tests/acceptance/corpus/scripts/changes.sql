-- UPDATE and DELETE. What plain Spark's copy becomes is said by a query.

-- name: accounts
CREATE TABLE accounts (id INT, owner STRING, balance DECIMAL(12,2), opened DATE, tags ARRAY<STRING>, place STRUCT<city: STRING, zip: INT>) STORED AS ORC;

-- name: five of them
INSERT INTO accounts VALUES (1, 'ann', 10.00, DATE '2020-01-01', array('a'), named_struct('city', 'Ulm', 'zip', 1)),
  (2, 'bob', 20.00, DATE '2021-01-01', array('a', 'b'), named_struct('city', 'Bari', 'zip', 2)), (3, 'cid', NULL, NULL, NULL, NULL),
  (4, 'dee', -5.50, DATE '2022-02-02', array(), named_struct('city', NULL, 'zip', 4)), (5, 'eve', 100.00, DATE '2023-03-03', array('c'), NULL);

-- name: movements, by month
CREATE TABLE movements (id INT, account INT, amount DECIMAL(12,2)) PARTITIONED BY (month STRING) STORED AS ORC;

-- name: some of them
INSERT INTO movements VALUES (1, 1, 5, '2024-01'), (2, 2, -3, '2024-01'), (3, 2, 7.25, '2024-02'), (4, 9, 1, '2024-02'), (5, 5, -50, '2024-03'), (6, NULL, 0, '2024-03');

-- name: one row
-- becomes accounts: SELECT id, owner, if(id = 1, 11.00, balance), opened, tags, place FROM accounts
UPDATE accounts SET balance = 11.00 WHERE id = 1;

-- name: all rows
-- becomes accounts: SELECT id, initcap(owner), balance + 1, opened, tags, place FROM accounts
UPDATE accounts SET owner = initcap(owner), balance = balance + 1;

-- name: the right side is what was there
-- becomes accounts: SELECT if(id > 4, id + 1, id), owner, if(id > 4, id, balance), opened, tags, place FROM accounts
UPDATE accounts SET id = id + 1, balance = id WHERE id > 4;

-- name: to NULL, and from NULL
-- becomes accounts: SELECT id, owner, if(balance IS NULL, 0, balance), if(balance IS NULL, NULL, opened), tags, place FROM accounts
UPDATE accounts SET balance = 0, opened = NULL WHERE balance IS NULL;

-- name: with an alias
-- becomes accounts: SELECT id, owner, balance, opened, if(owner LIKE 'B%', array_append(tags, 'x'), tags), place FROM accounts
UPDATE accounts a SET tags = array_append(a.tags, 'x') WHERE a.owner LIKE 'B%';

-- name: a field of a struct
-- becomes accounts: SELECT id, owner, balance, opened, tags, if(id <= 2, named_struct('city', 'Rom', 'zip', place.zip), place) FROM accounts
UPDATE accounts SET place.city = 'Rom' WHERE id <= 2;

-- name: by a CASE
-- becomes accounts: SELECT id, owner, CASE WHEN balance < 0 THEN 0 WHEN balance > 50 THEN 50 ELSE balance END, opened, tags, place FROM accounts
UPDATE accounts SET balance = CASE WHEN balance < 0 THEN 0 WHEN balance > 50 THEN 50 ELSE balance END;

-- name: where another table has something
-- becomes accounts: SELECT id, owner, if(id IN (SELECT account FROM movements WHERE month = '2024-02'), balance + 100, balance), opened, tags, place FROM accounts
UPDATE accounts SET balance = balance + 100 WHERE id IN (SELECT account FROM movements WHERE month = '2024-02');

-- name: where it has nothing, correlated
-- becomes accounts: SELECT id, if(n IS NULL, 'idle', owner), balance, opened, tags, place FROM accounts LEFT JOIN (SELECT account, count(*) AS n FROM movements GROUP BY account) ON id = account
UPDATE accounts SET owner = 'idle' WHERE NOT EXISTS (SELECT 1 FROM movements m WHERE m.account = accounts.id);

-- name: from another table
-- becomes accounts: SELECT id, owner, coalesce(total, balance), opened, tags, place FROM accounts LEFT JOIN (SELECT account, sum(amount) AS total FROM movements GROUP BY account) ON id = account
UPDATE accounts SET balance = s.total FROM (SELECT account, sum(amount) AS total FROM movements GROUP BY account) s WHERE accounts.id = s.account;

-- name: by a scalar subquery
-- becomes accounts: SELECT id, owner, if(id = 3, (SELECT max(amount) FROM movements), balance), opened, tags, place FROM accounts
UPDATE accounts SET balance = (SELECT max(amount) FROM movements) WHERE id = 3;

-- name: one partition
-- becomes movements: SELECT id, account, if(month = '2024-01', amount * 2, amount), month FROM movements
UPDATE movements SET amount = amount * 2 WHERE month = '2024-01';

-- name: some partitions by a range
-- becomes movements: SELECT id, account, if(month > '2024-01' AND amount > 0, amount + 0.01, amount), month FROM movements
UPDATE movements SET amount = amount + 0.01 WHERE month > '2024-01' AND amount > 0;

-- name: rows move to another partition
-- becomes movements: SELECT id, account, amount, if(account = 2, '2024-04', month) FROM movements
UPDATE movements SET month = '2024-04' WHERE account = 2;

-- name: nothing
-- becomes movements: SELECT * FROM movements
UPDATE movements SET amount = 0 WHERE id > 1000;

-- name: a column that is not there
-- refused: balanse
UPDATE accounts SET balanse = 0;

-- name: a value of the wrong type
-- refused: the value 'Ann' is no decimal(12,2)
UPDATE accounts SET balance = owner WHERE id = 1;

-- name: one row goes
-- becomes accounts: SELECT * FROM accounts WHERE id <> 4
DELETE FROM accounts WHERE id = 4;

-- name: rows with NULL stay where a condition is about them
-- becomes movements: SELECT * FROM movements WHERE NOT coalesce(account > 5, false)
DELETE FROM movements WHERE account > 5;

-- name: rows of a whole partition
-- becomes movements: SELECT * FROM movements WHERE month <> '2024-03'
DELETE FROM movements WHERE month = '2024-03';

-- name: rows that another table has
-- becomes accounts: SELECT * FROM accounts WHERE id NOT IN (SELECT account FROM movements WHERE amount < 0)
DELETE FROM accounts WHERE id IN (SELECT account FROM movements WHERE amount < 0);

-- name: by USING
-- becomes movements: SELECT * FROM movements WHERE account NOT IN (SELECT id FROM accounts)
DELETE FROM movements m USING accounts a WHERE m.account = a.id;

-- name: the first in an order
-- becomes accounts: SELECT * FROM accounts WHERE id <> 1
DELETE FROM accounts ORDER BY id LIMIT 1;

-- name: what was deleted comes again
INSERT INTO accounts (id, owner) VALUES (1, 'again'), (4, 'again');

-- name: all that is left
-- becomes movements: SELECT * FROM movements WHERE false
DELETE FROM movements;

-- name: a table is emptied
-- becomes accounts: SELECT * FROM accounts WHERE false
TRUNCATE TABLE accounts;

-- name: a partition that is not there
-- refused: Partition {'month': '1999-01'} of
TRUNCATE TABLE movements PARTITION (month = '1999-01');
