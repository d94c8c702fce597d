//! A tenant's administrator who makes thousands of claims, seen from the management cluster and from another
//! tenant.
//!
//! The management API is real, and the program is the one of a pod, with the rates that it has there. Of the tenant
//! cluster the driver knows no more than what the stock provisioner calls for each claim, which the tests call: as
//! many at once as it has workers, and all of them again, as it does of what was refused.
//! Invariant: what is there before the flood is there after it, and at rest nothing is written.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use csi_proxy::settings::{Offer, Settings};
use futures::future::try_join_all;
use futures::{StreamExt as _, TryStreamExt as _, stream};
use k8s_openapi::api::core::v1::PersistentVolumeClaim;
use kit_client::args::{ClientArgs, RESERVE_BURST, RESERVE_QPS, TENANT_BURST, TENANT_QPS};
use kube::ResourceExt as _;
use testkit::FaultPlan;
use testkit::fixtures::{PATIENCE, ask_until};
use testkit::waiting::{Seen, Watched};
use tonic::{Code, Status};

use crate::support::{Driver, Environment, Fakes};
use crate::tenants::wanted;

/// Claims of the flood.
const CLAIMS: usize = 5_000;
/// Volumes that there are before.
const BEFORE: usize = 20;
/// Those of them that a machine has.
const ATTACHED: usize = 10;
/// As many volumes as the platform gives.
const LIMIT: u32 = 100;
/// Workers of the stock provisioner, as our addon starts it (`tenant-cp/src/addons/csi/sidecars.rs`).
const WORKERS: usize = 50;
/// How long a neighbour's volume may take to be made. It takes a tenth of a second on an idle machine; one that
/// waited for the flood would wait for minutes.
const USUAL: Duration = Duration::from_secs(30);
/// How long volumes of a dead machine may take to be free. By the budget of all else each of some seven requests
/// in a row would wait for [`WORKERS`] others, which is 18 s.
const FAILOVER: Duration = Duration::from_secs(15);
/// Most memory of the program in MiB, as it is built for tests.
const MOST_MIB: u64 = 64;

fn settings(environment: &Environment) -> Settings {
    let settings = environment.settings();
    let offer = Offer {
        max_volumes: Some(LIMIT),
        ..settings.offer.clone()
    };
    Settings { offer, ..settings }
}

/// Asks for volumes, as many at once as there are workers: those that are made, and what is said of others.
async fn ask_for(driver: &Driver, numbers: Range<usize>) -> (BTreeSet<String>, Vec<Status>) {
    let calls = numbers.map(|number| async move { driver.create(&format!("pvc-{number}")).await });
    let mut answers = stream::iter(calls).buffer_unordered(WORKERS);
    let (mut made, mut refused) = (BTreeSet::new(), Vec::new());
    while let Some(answer) = answers.next().await {
        match answer {
            Ok(id) => drop(made.insert(id)),
            Err(status) => refused.push(status),
        }
    }
    (made, refused)
}

/// Asks for what is not there, as often as the driver answers and as many at once as there are workers: each costs
/// a request. Ends never.
async fn keep_asking(driver: &Driver) {
    let calls = (0_usize..).map(|number| async move {
        let _ = driver
            .publish(&format!("vol-of-nobody-{number}"), "b")
            .await;
    });
    let mut calls = stream::iter(calls).buffer_unordered(WORKERS);
    while calls.next().await.is_some() {}
}

/// What claims are, but for their versions.
fn content(claims: &Seen<PersistentVolumeClaim>) -> BTreeMap<String, Option<String>> {
    let all = claims.all.iter();
    all.map(|(name, claim)| (name.clone(), claim.uid()))
        .collect()
}

/// The longest that a neighbour's volumes took to be made, one after the other.
async fn of_neighbours(neighbour: &Driver, numbers: Range<usize>) -> Result<Duration> {
    let mut longest = Duration::ZERO;
    for number in numbers {
        let begin = Instant::now();
        neighbour.create(&format!("later-{number}")).await?;
        longest = longest.max(begin.elapsed());
    }
    Ok(longest)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn five_thousand_claims_get_what_the_platform_gives_and_delay_neither_neighbours_nor_failovers()
-> Result<()> {
    let Some(hostile) = Environment::new("crowd").await? else {
        return Ok(());
    };
    let Some(victim) = Environment::new("beside").await? else {
        return Ok(());
    };
    let _fakes = [Fakes::start(&hostile), Fakes::start(&victim)];
    let begin = Instant::now();
    let said = |what: &str| eprintln!("{:>5.1} s: {what}", begin.elapsed().as_secs_f64());
    for name in ["a", "b"] {
        hostile.machine(name).await?;
    }
    // What there was before did not come within a second, but here it has to.
    let quick = Driver::with(&hostile, settings(&hostile), &FaultPlan::none()).await?;
    let ids = (0..BEFORE).map(|number| {
        let quick = &quick;
        async move {
            let id = quick.create(&format!("before-{number}")).await?;
            if number < ATTACHED {
                quick.publish(&id, "a").await?;
            }
            Ok::<_, Status>(id)
        }
    });
    let ids = try_join_all(ids).await?;
    drop(quick);
    let paced = ClientArgs {
        qps: TENANT_QPS,
        burst: TENANT_BURST,
        ..ClientArgs::default()
    };
    let neighbour = Driver::limited(&victim, &paced).await?;
    victim.machine("v").await?;
    let precious = neighbour.create("precious").await?;
    neighbour.publish(&precious, "v").await?;
    let claims = Watched::start(hostile.claims());
    claims
        .until("all are seen", PATIENCE, |seen| seen.all.len() == BEFORE)
        .await?;
    let (before, theirs) = (claims.read(content), wanted(&victim).await?);
    said("all is as ever");

    let driver = Driver::program(&hostile, &settings(&hostile), &[]).await?;
    let window = hostile.management.audit().window()?;
    let ((made, refused), longest) =
        tokio::join!(ask_for(&driver, 0..CLAIMS), of_neighbours(&neighbour, 0..5));
    let longest = longest?;
    said(&format!(
        "each claim was asked for; volumes of a neighbour took {longest:.1?} at most"
    ));
    ensure!(longest < USUAL, "a neighbour's volume took {longest:?}");
    let given = LIMIT as usize - BEFORE;
    assert_eq!((made.len(), refused.len()), (given, CLAIMS - given));
    let ((again, still), longest) = tokio::join!(
        ask_for(&driver, 0..CLAIMS),
        of_neighbours(&neighbour, 5..10)
    );
    ensure!(longest? < USUAL);
    assert_eq!(
        (&again, still.len()),
        (&made, refused.len()),
        "repeats get what they got"
    );
    for status in refused.iter().chain(&still) {
        assert_eq!(status.code(), Code::ResourceExhausted, "{status:?}");
        let told = status.message();
        ensure!(
            told.contains("as many volumes as it may have (100)"),
            "{told}"
        );
        ensure!(
            !told.contains(&hostile.ns) && !told.contains(&victim.ns),
            "{told}"
        );
    }
    said("and once more");
    let counts = window.counts(&hostile.user())?;
    let asked = |verb: &str| {
        let of = (verb.to_owned(), "persistentvolumeclaims".to_owned());
        counts.get(&of).copied().unwrap_or_default()
    };
    assert_eq!(
        (asked("create"), asked("get")),
        (given, 0),
        "a refusal costs no request"
    );
    window.assert_paced(&hostile.user(), TENANT_QPS, TENANT_BURST)?;

    let asks = hostile.management.audit().window()?;
    let failover = async {
        ask_until("the budget is used up", PATIENCE, || async {
            let asked = asks.counts(&hostile.user())?.values().sum::<usize>();
            Ok(match asked > 2 * TENANT_BURST as usize {
                true => Ok(()),
                false => Err(format!("{asked} requests")),
            })
        })
        .await?;
        let longest = of_neighbours(&neighbour, 10..15).await?;
        let begin = Instant::now();
        hostile.vms().delete("a", &Default::default()).await?;
        try_join_all(ids[..ATTACHED].iter().map(|id| driver.unpublish(id, "a"))).await?;
        anyhow::Ok((begin.elapsed(), longest))
    };
    let (took, longest) = tokio::select! {
        done = failover => done?,
        () = keep_asking(&driver) => anyhow::bail!("it never ends"),
    };
    said(&format!(
        "volumes of a dead machine are free after {took:.1?}; a neighbour's took {longest:.1?} at most"
    ));
    ensure!(
        took < FAILOVER,
        "volumes of a dead machine are free after {took:?}"
    );
    ensure!(longest < USUAL, "a neighbour's volume took {longest:?}");

    // The flood goes.
    let deletions = made.iter().map(|id| driver.delete(id));
    let deletions = stream::iter(deletions).buffer_unordered(WORKERS);
    deletions.try_collect::<()>().await?;
    said("the flood is gone");
    claims
        .until("all is as before", PATIENCE, |seen| content(seen) == before)
        .await?;
    let most = claims.read(|seen| seen.most);
    ensure!(most == LIMIT as usize, "{most} claims at a time");
    let peak = driver.process.as_ref().context("it is one")?.peak_mib()?;
    said(&format!("{peak} MiB at most"));
    ensure!(peak < MOST_MIB, "{peak} MiB");
    let (qps, burst) = (TENANT_QPS + RESERVE_QPS, TENANT_BURST + RESERVE_BURST);
    window.assert_paced(&hostile.user(), qps, burst)?;
    window.assert_stays_in(&hostile.user(), &hostile.ns)?;
    let now = wanted(&victim).await?;
    for (name, says) in theirs {
        assert_eq!(now.get(&name), Some(&says), "{name}");
    }
    // There is a place again.
    let one = driver.create("after").await?;
    driver.delete(&one).await?;

    // At rest nothing is written, also not by whoever takes over.
    let still = hostile.management.audit().window()?;
    for number in 0..BEFORE {
        driver.create(&format!("before-{number}")).await?;
    }
    drop(driver);
    let next = Driver::with(&hostile, settings(&hostile), &FaultPlan::none()).await?;
    for number in 0..BEFORE {
        next.create(&format!("before-{number}")).await?;
    }
    still.assert_no_writes(&hostile.user())?;
    said("nothing is written any more");
    Ok(())
}
