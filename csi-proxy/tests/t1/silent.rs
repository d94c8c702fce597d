//! The management API is silent (its process is stopped in its tracks, connections stay open) while the tenant
//! cluster's sidecars go on asking.
//!
//! Invariant: it is silent for longer than a request waits for its answer, and every call was answered by then, so
//! the test does not pass because nobody asked.

use std::collections::BTreeSet;
use std::sync::Arc;

use anyhow::{Result, ensure};
use futures::future::{BoxFuture, FutureExt as _, join_all};
use kube::ResourceExt as _;
use kube::api::ListParams;
use proto::csi::ListVolumesRequest;
use testkit::ManagementApi;
use testkit::faults::failures_of_a_silence;
use testkit::fixtures::{PATIENCE, ask_until};
use tonic::{Code, Status};

use crate::support::{Driver, Environment, Fakes};

/// Where volumes are, by what the driver remembers.
async fn published(driver: &Driver, id: &str) -> Result<Vec<String>> {
    let mut controller = driver.controller();
    let list = controller.list_volumes(ListVolumesRequest::default());
    let entries = list.await?.into_inner().entries.into_iter();
    let of = |volume: &proto::csi::Volume| volume.volume_id == id;
    let mut of_it = entries.filter(|entry| entry.volume.as_ref().is_some_and(of));
    let status = of_it.next().and_then(|entry| entry.status);
    Ok(status.unwrap_or_default().published_node_ids)
}

/// Calls, as sidecars do again and again, until it is done.
async fn repeat<T>(what: &str, call: impl AsyncFn() -> Result<T, Status>) -> Result<T> {
    ask_until(what, PATIENCE, || async {
        Ok(call().await.map_err(|status| format!("{status:?}")))
    })
    .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn silence_of_the_management_api_gives_no_volume_away_and_all_goes_on_afterwards()
-> Result<()> {
    let Some(management) = ManagementApi::start().await? else {
        return Ok(());
    };
    management.install_kinds().await?;
    let environment = Environment::on(Arc::new(management), "silent").await?;
    let _fakes = Fakes::start(&environment);
    let driver = Driver::start(&environment).await?;
    environment.machine("a").await?;
    environment.machine("b").await?;
    let (moves, comes) = (driver.create("moves").await?, driver.create("comes").await?);
    let (goes, stays) = (driver.create("goes").await?, driver.create("stays").await?);
    driver.publish(&moves, "a").await?;

    environment.management.pause().await?;
    for _ in 0..failures_of_a_silence() {
        let calls: [(&str, BoxFuture<'_, Result<(), Status>>); 5] = [
            ("unpublication", driver.unpublish(&moves, "a").boxed()),
            (
                "publication",
                driver
                    .publish(&comes, "b")
                    .map(|done| done.map(drop))
                    .boxed(),
            ),
            (
                "creation",
                driver.create("new").map(|done| done.map(drop)).boxed(),
            ),
            (
                "repetition",
                driver.create("stays").map(|done| done.map(drop)).boxed(),
            ),
            ("deletion", driver.delete(&goes).boxed()),
        ];
        let answers = calls.map(|(what, call)| call.map(move |answer| (what, answer)));
        for (what, answer) in join_all(answers).await {
            let code = answer.map_or_else(|status| status.code(), |()| Code::Ok);
            match what {
                // What is known to be there is not asked for.
                "repetition" => assert_eq!(code, Code::Ok, "{what}"),
                _ => ensure!(
                    matches!(code, Code::Unavailable | Code::DeadlineExceeded),
                    "{what}: {code:?}"
                ),
            }
        }
    }
    // Another machine does not get it meanwhile.
    let taken = driver
        .publish(&moves, "b")
        .await
        .map_err(|status| status.code());
    ensure!(taken.is_err(), "{moves} is in both");
    assert_eq!(published(&driver, &moves).await?, ["a"]);

    environment.management.resume().await?;
    repeat("it is detached", async || {
        driver.unpublish(&moves, "a").await
    })
    .await?;
    repeat("it is on the other one", async || {
        driver.publish(&moves, "b").await
    })
    .await?;
    repeat("it is attached", async || driver.publish(&comes, "b").await).await?;
    let new = repeat("it is made", async || driver.create("new").await).await?;
    repeat("it is deleted", async || driver.delete(&goes).await).await?;
    environment.vm("a", |machine| !machine.has(&moves)).await?;
    let claims = environment.claims().list(&ListParams::default()).await?;
    let there: BTreeSet<_> = claims.items.iter().map(|claim| claim.name_any()).collect();
    assert_eq!(
        there,
        [moves, comes, stays, new].into(),
        "each is made once"
    );
    Ok(())
}
