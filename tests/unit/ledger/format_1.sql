-- A ledger as the first format wrote it, for test_upgrade.py; its key, its anchor, and its tables.
-- key dba76a1dc0ca3fed64973e6960060220e52c7ab79ae3c42c036215aa5242896f
-- anchor {"sequence": 9, "head": "29e7403310d627ca0dc695d28816c91d640a273fb7f1c91b793e1779a196f6ff", "ledger": "606e407f627279ed5e46efe16e70a153", "mac": "f88a08afd31815c766b163be79643999ac53e1d4d66d2c0d0849e17d668452d3"}
BEGIN TRANSACTION;
CREATE TABLE accounts (name TEXT PRIMARY KEY NOT NULL, terms TEXT NOT NULL, sequence INTEGER NOT NULL);
INSERT INTO "accounts" VALUES('spend','{"cap":{"amount":3000000,"currency":"pure","delta":0},"delta":"0","epsilon":"3","unit":{"column":"user_id","kind":"users","n":null,"neighbours":"add-remove"}}',2);
INSERT INTO "accounts" VALUES('rows','{"cap":{"amount":1000000000000,"currency":"gaussian","delta":100000000000},"delta":"1/1000000","epsilon":null,"unit":{"column":null,"kind":"rows","n":null,"neighbours":"add-remove"}}',3);
CREATE TABLE answers (charge INTEGER NOT NULL, step INTEGER NOT NULL, sequence INTEGER NOT NULL, payload BLOB NOT NULL, PRIMARY KEY (charge, step));
INSERT INTO "answers" VALUES(4,0,5,X'3431');
INSERT INTO "answers" VALUES(6,0,8,X'66697273742073746570');
CREATE TABLE balances (account TEXT PRIMARY KEY NOT NULL, spent INTEGER NOT NULL, spent_delta INTEGER NOT NULL, cap INTEGER NOT NULL, cap_delta INTEGER NOT NULL, CHECK (spent >= 0 AND spent <= cap AND spent_delta >= 0 AND spent_delta <= cap_delta));
INSERT INTO "balances" VALUES('spend',750000,0,3000000,0);
INSERT INTO "balances" VALUES('rows',62500000000,0,1000000000000,100000000000);
CREATE TABLE entries (sequence INTEGER PRIMARY KEY NOT NULL, kind TEXT NOT NULL, account TEXT NOT NULL, name TEXT NOT NULL, request TEXT NOT NULL, amount INTEGER NOT NULL CHECK (amount >= 0), delta INTEGER NOT NULL CHECK (delta >= 0), charge INTEGER NOT NULL, step INTEGER NOT NULL, digest TEXT NOT NULL, detail TEXT NOT NULL, at TEXT NOT NULL, mac TEXT NOT NULL);
INSERT INTO "entries" VALUES(1,'ledger','','','',0,0,0,0,'','{"format":"steelyard ledger","key":"9ac0b935ed3e162a","ledger":"606e407f627279ed5e46efe16e70a153","schema":"fd8dc887711ffb90b43f863fd7eaea432d743fce3221119e37f539ba57a940be","version":"1"}','2026-11-18T01:39:36Z','53f5f9a4fc703989e28645ca5d09be9cd8e286a4dd91ada095dcea2084759bbb');
INSERT INTO "entries" VALUES(2,'account','spend','','',3000000,0,0,0,'','{"cap":{"amount":3000000,"currency":"pure","delta":0},"delta":"0","epsilon":"3","unit":{"column":"user_id","kind":"users","n":null,"neighbours":"add-remove"}}','2026-11-18T01:39:36Z','20c6780d45fa70c1362ee950aa7f8e56d54d5e54059a53c6671a7e9d8b38abb8');
INSERT INTO "entries" VALUES(3,'account','rows','','',1000000000000,100000000000,0,0,'','{"cap":{"amount":1000000000000,"currency":"gaussian","delta":100000000000},"delta":"1/1000000","epsilon":null,"unit":{"column":null,"kind":"rows","n":null,"neighbours":"add-remove"}}','2026-11-18T01:39:36Z','f0160c58bc8ed13750b59fef73365b86c3e1eb03b312d9d6640a127d45351782');
INSERT INTO "entries" VALUES(4,'charge','spend','first','34bae45683c8fda46b391c1c3e3258ab5c20533a924528125bdc8389ea968f80 of ''may.parquet''',500000,0,0,0,'','{"name":"laplace","neighbours":"add-remove","parameters":{"scale_denominator":1,"scale_numerator":2,"sensitivity":1},"status":"proved"}','2026-11-18T01:39:36Z','80464a7eb762da79b69b44f6f7e07c7db2b1516909a3fe6c2923b6cdb08f0cc7');
INSERT INTO "entries" VALUES(5,'answer','spend','','',0,0,4,0,'3d914f9348c9cc0ff8a79716700b9fcd4d2f3e711608004eb8f138bcba7f14d9','','','f8986586649b0f173f95a9b4c6b6b6494727b70e7d64873f0061f89b760f62da');
INSERT INTO "entries" VALUES(6,'charge','spend','path','a0af9f865bf637e6736817f4ce552e4cdf7b8c36ea75bc254c1d1f0af744b5bf',100000,0,0,0,'','','2026-11-18T01:39:36Z','ddd688ab4ec9a562f734ad4837739983e9361de1b1f9dd3b8f62e0b3649146e3');
INSERT INTO "entries" VALUES(7,'raise','spend','','',250000,0,6,0,'','{"from":100000}','','31b73a6da8595743707b8f205e98058d92144455a1fc6d176d757c03effe0b33');
INSERT INTO "entries" VALUES(8,'answer','spend','','',0,0,6,0,'e6ff4049db45a9ef20f49e1c533b5ef3019e1a1c4f7a73dd353297ea64d56c26','','','9c110bc3e8c0be2c2a393cbf03e38a4d7e6bd26b96c56100ee9cddefa7e6b954');
INSERT INTO "entries" VALUES(9,'charge','rows','waits','6c35493a2b937829c9815c39e23af964bc84e5430a7dc104c700bbc0de2b59e3',62500000000,0,0,0,'','','2026-11-18T01:39:36Z','29e7403310d627ca0dc695d28816c91d640a273fb7f1c91b793e1779a196f6ff');
CREATE TABLE head (one INTEGER PRIMARY KEY NOT NULL CHECK (one = 1), sequence INTEGER NOT NULL, mac TEXT NOT NULL);
INSERT INTO "head" VALUES(1,9,'29e7403310d627ca0dc695d28816c91d640a273fb7f1c91b793e1779a196f6ff');
CREATE TABLE meta (name TEXT PRIMARY KEY NOT NULL, value TEXT NOT NULL);
INSERT INTO "meta" VALUES('format','steelyard ledger');
INSERT INTO "meta" VALUES('version','1');
INSERT INTO "meta" VALUES('ledger','606e407f627279ed5e46efe16e70a153');
CREATE UNIQUE INDEX one_charge_per_key ON entries (account, name) WHERE kind = 'charge';
CREATE INDEX raises_of_a_charge ON entries (charge, sequence) WHERE kind = 'raise';
CREATE UNIQUE INDEX one_answer_per_step ON entries (charge, step) WHERE kind = 'answer';
COMMIT;
