//! A log of several segments of which the first were purged: the first that is left tells as much.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::path::Path;

use anyhow::{Result, ensure};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use testkit::waiting::{PATIENCE, ask_until};

use super::support::{Cluster, Member, Site, gate, running_cluster};

/// More than half of a segment, whose 64 MB are no flag of etcd's.
const HALF: usize = 33_000_000;
const FLAGS: [&str; 5] = [
    "--max-request-bytes=40000000",
    // A snapshot after each, and neither more of them nor more segments than one.
    "--snapshot-count=1",
    "--max-snapshots=1",
    "--max-wals=1",
    "--unsafe-no-fsync",
];

/// A transaction that is logged with all of its bytes and then does nothing, because its condition is
/// not met: the log grows and the database does not.
fn log_in_vain(member: &Member) -> Result<()> {
    let (key, value) = (STANDARD.encode("a"), STANDARD.encode(vec![b'x'; HALF]));
    let body = format!(
        r#"{{"compare": [{{"key": "{key}", "target": "VERSION", "version": "1000"}}],
            "success": [{{"request_put": {{"key": "{key}", "value": "{value}"}}}}]}}"#
    );
    let mut stream = TcpStream::connect(member.address())?;
    let head = format!(
        "POST /v3/kv/txn HTTP/1.1\r\nHost: etcd\r\nConnection: close\r\nContent-Length: {}\r\n\r\n",
        body.len()
    );
    stream.write_all(head.as_bytes())?;
    stream.write_all(body.as_bytes())?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    ensure!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    Ok(())
}

fn segments(volume: &Path) -> Result<Vec<String>> {
    let entries = fs::read_dir(volume.join("data/member/wal"))?;
    let names = entries.map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned()));
    let mut names: Vec<_> = names.collect::<Result<_>>()?;
    names.retain(|name| name.ends_with(".wal"));
    names.sort();
    Ok(names)
}

#[tokio::test]
async fn a_log_whose_first_segments_are_gone_says_whose_it_is() -> Result<()> {
    let Some(site) = Site::new()? else {
        return Ok(());
    };
    let volume = site.volume("volume");
    let cluster = Cluster::new("token", 1)?;
    let member = site.start(&[&volume], &cluster, &FLAGS).await?.remove(0);
    let ids = site.ids(&member)?;
    let identity = running_cluster(ids.0, &[ids.1]);
    for _ in 0..4 {
        log_in_vain(&member)?;
    }
    member.kill();
    let all = segments(&volume)?;
    assert!(all.len() > 1, "{all:?}");
    gate(&volume, "etcd-0", "existing", &identity).is(0, "Start");

    // It purges when it starts.
    let member = site.start(&[&volume], &cluster, &FLAGS).await?.remove(0);
    ask_until("the first segment is gone", PATIENCE, || {
        let left = segments(&volume).map(|left| match left.contains(&all[0]) {
            true => Err(format!("{left:?}")),
            false => Ok(()),
        });
        std::future::ready(left)
    })
    .await?;
    assert_eq!(site.ids(&member)?, ids);
    member.kill();
    let answer = gate(&volume, "etcd-0", "existing", &identity);
    answer.is(0, "Start");
    let named = format!("cluster {:x}, member {:x}", ids.0, ids.1);
    assert!(answer.line.ends_with(&named), "{answer:?} {named}");
    Ok(())
}
