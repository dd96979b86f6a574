BEGIN TRANSACTION;
CREATE TABLE names (
 id INTEGER PRIMARY KEY,
 owner TEXT NOT NULL,
 name TEXT NOT NULL,
 readers TEXT NOT NULL,
 last INTEGER NOT NULL,
 UNIQUE (owner, name)
) STRICT;
INSERT INTO "names" VALUES(1,'uid:1000','ia1b2c3d4e5f6g7h8i9j0/results/report.txt','',2);
INSERT INTO "names" VALUES(2,'uid:0','prices.csv','uid:1000 *',1);
INSERT INTO "names" VALUES(3,'uid:0','gone.csv','',1);
CREATE TABLE versions (
 name INTEGER NOT NULL REFERENCES names (id),
 number INTEGER NOT NULL,
 sha256 TEXT NOT NULL,
 size INTEGER NOT NULL,
 at INTEGER NOT NULL,
 job TEXT NOT NULL,
 brief TEXT NOT NULL,
 certificate TEXT NOT NULL,
 PRIMARY KEY (name, number)
) STRICT, WITHOUT ROWID;
INSERT INTO "versions" VALUES(1,1,'b640e840b19d378660b32fb51ae18d67dccb4a8596a29e7bd72c1b2ae5928f41',6,1794767029250,'ia1b2c3d4e5f6g7h8i9j0','abababababababababababababababababababababababababababababababab','cert');
INSERT INTO "versions" VALUES(1,2,'480c2336b410f1ad5f8bf1b28944490255804b65350c527787e74ebdd511e3a4',7,1794767029282,'ia1b2c3d4e5f6g7h8i9j0','abababababababababababababababababababababababababababababababab','');
INSERT INTO "versions" VALUES(2,1,'444e0fffbd825e9610ff5b199485707a0c895339ae80c15cc8a8aee41b106fda',6,1794767029314,'','','');
CREATE INDEX blobs ON versions (sha256);
COMMIT;
