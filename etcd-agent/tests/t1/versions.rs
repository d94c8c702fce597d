//! From etcd 3.6 to 3.7 and back, member by member, while somebody writes: what docs/etcd.md says of versions.
//!
//! Invariant: every write that was acknowledged is there at the end, in every member.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use backup::etcd::Etcd;
use lab::programs::Program;
use proto::etcd::request_op::Request;
use proto::etcd::{PutRequest, RangeRequest, RequestOp, TxnRequest};
use testkit::programs::reference_or_skip;
use testkit::waiting::{PATIENCE, ask_until};

use super::support::{Cluster, Member, Site, gate, running_cluster};

/// Time between two tries to write.
const PERIOD: Duration = Duration::from_millis(20);
const OLD: &str = "3.6.";
const NEW: &str = "3.7.";

/// Members, each with the URL that clients have of it now.
struct Members {
    site: Site,
    cluster: Cluster,
    running: Vec<Option<Member>>,
    urls: Arc<std::sync::Mutex<Vec<String>>>,
    identity: serde_json::Value,
}

impl Members {
    async fn start() -> Result<Option<Self>> {
        let Some(site) = Site::new()? else {
            return Ok(None);
        };
        let volumes = [0, 1, 2].map(|number| site.volume(&name(number)));
        let own: Vec<_> = volumes.iter().map(std::path::PathBuf::as_path).collect();
        let cluster = Cluster::new("versions", 3)?;
        let members = site.start(&own, &cluster, &[]).await?;
        let ids = members.iter().map(|member| site.ids(member));
        let ids = ids.collect::<Result<Vec<_>>>()?;
        let of_members: Vec<_> = ids.iter().map(|(_, member)| *member).collect();
        let identity = running_cluster(ids[0].0, &of_members);
        let urls = members
            .iter()
            .map(|member| member.url().to_owned())
            .collect();
        Ok(Some(Self {
            site,
            cluster,
            running: members.into_iter().map(Some).collect(),
            urls: Arc::new(std::sync::Mutex::new(urls)),
            identity,
        }))
    }

    fn member(&self, number: usize) -> Result<&Member> {
        self.running[number].as_ref().context("it does not run")
    }

    /// Ends a member as a rollout does, asks the gate, and starts this program on its volume. In order: one that
    /// is killed a moment after the storage version fell has not noted that, and the older program refuses its data.
    async fn becomes(&mut self, number: usize, program: &Path) -> Result<()> {
        let volume = self.site.volume(&name(number));
        if let Some(member) = self.running[number].take() {
            member.stop().await?;
        }
        gate(&volume, &name(number), "existing", &self.identity).is(0, "Start");
        let name = name(number);
        let joined = self.site.join(program, &volume, &name, &self.cluster);
        let member = joined.await?;
        self.urls.lock().unwrap()[number] = member.url().to_owned();
        self.running[number] = Some(member);
        Ok(())
    }

    /// Until the programs of all members, and the data of all, are of these versions.
    async fn are(&self, program: &str, data: &str) -> Result<()> {
        ask_until("all members are of a version", PATIENCE, || async {
            let mut all = Vec::new();
            for member in self.running.iter().flatten() {
                all.push(self.site.versions(member)?);
            }
            let is = |(own, stored): &(String, String)| {
                own.starts_with(program) && stored.starts_with(data)
            };
            Ok(match all.len() == 3 && all.iter().all(is) {
                true => Ok(()),
                false => Err(format!("{all:?}")),
            })
        })
        .await
    }
}

fn name(number: usize) -> String {
    format!("etcd-{number}")
}

fn key(number: u64) -> Vec<u8> {
    format!("/registry/written/{number:06}").into_bytes()
}

/// Writes one key after another to whoever answers, until it is told to end; how many were acknowledged.
fn writer(
    urls: Arc<std::sync::Mutex<Vec<String>>>,
    over: Arc<AtomicBool>,
    acknowledged: Arc<AtomicU64>,
) -> tokio::task::JoinHandle<u64> {
    tokio::spawn(async move {
        let mut number = 0;
        let mut turn = 0;
        let mut ticks = tokio::time::interval(PERIOD);
        while !over.load(Ordering::Relaxed) {
            ticks.tick().await;
            let url = urls.lock().unwrap()[turn % 3].clone();
            let request = TxnRequest {
                success: vec![RequestOp {
                    request: Some(Request::RequestPut(PutRequest {
                        key: key(number),
                        value: number.to_be_bytes().to_vec(),
                        lease: 0,
                    })),
                }],
            };
            let written = async { Etcd::new(&url, None)?.transact(request).await };
            match written.await {
                Ok(_) => {
                    number += 1;
                    acknowledged.store(number, Ordering::Relaxed);
                }
                // The same again, to another one.
                Err(_) => turn += 1,
            }
        }
        number
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn members_go_to_the_next_minor_and_back_one_by_one_without_losing_a_write() -> Result<()> {
    let Some(new) = reference_or_skip(Program::ETCD_3_7, "etcd")? else {
        return Ok(());
    };
    let Some(mut members) = Members::start().await? else {
        return Ok(());
    };
    let old = members.site.etcd().to_owned();
    let over = Arc::new(AtomicBool::new(false));
    let written = Arc::new(AtomicU64::new(0));
    let writer = writer(
        Arc::clone(&members.urls),
        Arc::clone(&over),
        Arc::clone(&written),
    );

    // While one is left that is older they work as the older minor, and go back by image alone.
    members.becomes(2, &new).await?;
    members.becomes(1, &new).await?;
    let (_, data) = members.site.versions(members.member(1)?)?;
    ensure!(data.starts_with(OLD), "{data}");
    members.becomes(1, &old).await?;
    members.becomes(2, &old).await?;
    members.are(OLD, OLD).await?;

    for number in [2, 1, 0] {
        members.becomes(number, &new).await?;
    }
    members.are(NEW, NEW).await?;

    // Then the older one refuses the data, and touches nothing.
    if let Some(member) = members.running[2].take() {
        member.kill();
    }
    let volume = members.site.volume(&name(2));
    let last = name(2);
    let said = members.site.fails(&old, &volume, &last, &members.cluster);
    let said = said.await?;
    ensure!(
        said.contains("downgrade") || said.contains("version"),
        "{said}"
    );
    members.becomes(2, &new).await?;
    members.are(NEW, NEW).await?;

    // Two minors at once are refused, and one is had once it was asked for.
    let site = &members.site;
    let two = site.downgrade(members.member(0)?, "validate", "3.5");
    ensure!(two.is_err(), "two minors");
    site.downgrade(members.member(0)?, "validate", "3.6")?;
    site.downgrade(members.member(0)?, "enable", "3.6")?;
    members.are(NEW, OLD).await?;
    for number in [2, 1, 0] {
        members.becomes(number, &old).await?;
    }
    members.are(OLD, OLD).await?;

    // How many there are by now is for the machine to say, which is why they are waited for.
    ask_until("a hundred writes are acknowledged", PATIENCE, || async {
        Ok(match written.load(Ordering::Relaxed) {
            enough if enough > 100 => Ok(()),
            few => Err(format!("only {few}")),
        })
    })
    .await?;
    over.store(true, Ordering::Relaxed);
    let acknowledged = writer.await?;
    for number in 0..3 {
        let etcd = Etcd::new(members.member(number)?.url(), None)?;
        let all = RangeRequest {
            key: key(0),
            range_end: key(acknowledged),
            ..RangeRequest::default()
        };
        let found = etcd.range(all).await?.kvs;
        ensure!(
            found.len() as u64 == acknowledged,
            "{} of {acknowledged}",
            found.len()
        );
        let is_own = |(number, kv): (u64, &proto::etcd::KeyValue)| {
            kv.key == key(number) && kv.value == number.to_be_bytes()
        };
        ensure!(
            (0..).zip(&found).all(is_own),
            "etcd-{number} has other values"
        );
    }
    Ok(())
}
