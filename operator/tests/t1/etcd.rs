//! What a real etcd says of itself over its JSON gateway, with the certificates and on the port that
//! members of tenant clusters have.

use std::net::{Ipv4Addr, SocketAddr};

use anyhow::{Result, ensure};
use http::Request;
use jiff::Timestamp;
use operator::tenant_session::budget::Budget;
use operator::tenant_session::etcd;
use operator::tenant_session::etcd::answers::Alarm;
use operator::tenant_session::session::Session;
use pki::{Signer, Store, Want};
use testkit::ports::unused;
use testkit::process::{Process, Workdir};
use testkit::programs::Programs;
use testkit::waiting::ask_until;

use crate::support::PATIENCE;

const MEMBER: &str = "etcd-0";
const AUTHORITY: &str = "etcd-ca";
const CLIENT: &str = "etcd-healthcheck-client";

fn free() -> Result<SocketAddr> {
    Ok((Ipv4Addr::LOCALHOST, unused()?).into())
}

fn certificates() -> Result<Store> {
    let want = |name: &str, signer, server| Want {
        name: name.to_owned(),
        signer,
        common_name: name.to_owned(),
        organizations: Vec::new(),
        server,
        client: true,
        dns_names: [name, "localhost"].map(str::to_owned).into(),
        addresses: Vec::new(),
        lifetime_hours: 24,
    };
    let now = Timestamp::now();
    let by = || Signer::By(AUTHORITY.to_owned());
    let mut authority = want(AUTHORITY, Signer::Own, false);
    authority.client = false;
    authority.dns_names.clear();
    let authority = pki::issue(&authority, None, now)?;
    let mut store = Store::new();
    for leaf in [want(MEMBER, by(), true), want(CLIENT, by(), false)] {
        store.insert(leaf.name.clone(), pki::issue(&leaf, Some(&authority), now)?);
    }
    store.insert(AUTHORITY.to_owned(), authority);
    Ok(store)
}

#[tokio::test]
async fn member_says_its_cluster_itself_and_its_alarms() -> Result<()> {
    let Some(programs) = Programs::find_or_skip()? else {
        return Ok(());
    };
    let store = certificates()?;
    let dir = Workdir::new()?;
    let write = |name: &str, text: &str| {
        let path = dir.write(name, text)?;
        anyhow::Ok(path.display().to_string())
    };
    let member = &store[MEMBER];
    let (http, grpc, peer) = (free()?, free()?, free()?);
    let flags = [
        format!("--name={MEMBER}"),
        format!("--data-dir={}", dir.path().join("data").display()),
        format!("--cert-file={}", write("server.crt", &member.certificate)?),
        format!("--key-file={}", write("server.key", member.key.reveal())?),
        format!(
            "--trusted-ca-file={}",
            write("ca.crt", &store[AUTHORITY].certificate)?
        ),
        "--client-cert-auth=true".to_owned(),
        format!("--listen-client-http-urls=https://{http}"),
        format!("--listen-client-urls=https://{grpc}"),
        format!("--advertise-client-urls=https://{grpc}"),
        format!("--listen-peer-urls=http://{peer}"),
        format!("--initial-advertise-peer-urls=http://{peer}"),
        format!("--initial-cluster={MEMBER}=http://{peer}"),
    ];
    let log = dir.path().join("log");
    let mut process = Process::spawn(MEMBER, &programs.etcd, &flags, &log)?;
    let session = Session {
        address: http,
        authority: store[AUTHORITY].certificate.clone(),
        identity: store[CLIENT].clone(),
        server_name: MEMBER.to_owned(),
    };
    let client = session.client(&Budget::waiting(PATIENCE))?;
    let first = ask_until("an answer", PATIENCE, || {
        let ended = process.exited().map(|_| process.log_tail(10));
        let client = client.clone();
        async move {
            match ended {
                Some(log) => Err(anyhow::anyhow!(log)),
                None => Ok(etcd::status(&client).await.map_err(|e| e.to_string())),
            }
        }
    })
    .await?;
    ensure!(first.alarms.is_empty(), "{first:?}");
    for id in [&first.cluster_id, &first.member_id] {
        ensure!(u64::from_str_radix(id, 16).is_ok_and(|id| id != 0), "{id}");
    }

    let alarm = Request::post("/v3/maintenance/alarm")
        .header("content-type", "application/json")
        .body(br#"{"action": "ACTIVATE", "alarm": "NOSPACE"}"#.to_vec())?;
    client.request_text(alarm).await?;
    let alarmed = etcd::status(&client).await?;
    ensure!(alarmed.alarms == [Alarm::NoSpace], "{alarmed:?}");
    ensure!(alarmed.cluster_id == first.cluster_id, "{alarmed:?}");

    // A member whose certificate is for somebody else is not believed.
    let other = Session {
        server_name: "etcd-1".to_owned(),
        ..session
    };
    let other = other.client(&Budget::waiting(PATIENCE))?;
    ensure!(etcd::status(&other).await.is_err());
    Ok(())
}
