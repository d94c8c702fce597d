//! The controller dies before and after its k-th write, for every k of a volume's life; the sidecars
//! call again, and another one, which knows nothing, brings the same end about.
//!
//! Invariant: no k is left out: runs go on until one of them ends without having died.

use anyhow::{Result, ensure};
use csi_proxy::model::Machine;
use serde_json::{Value, json};
use testkit::FaultPlan;
use testkit::faults::wherever_it_dies;
use tonic::Status;

use crate::support::{Driver, Player, Site};

/// Calls as a sidecar does: again, when the controller died on the way.
struct Life<'a> {
    site: &'a Site,
    driver: Driver,
    died: bool,
}

impl Life<'_> {
    async fn call<T>(&mut self, call: impl AsyncFn(&Driver) -> Result<T, Status>) -> Result<T> {
        let plan = self.driver.plan.clone();
        let done = tokio::select! {
            biased;
            () = plan.crashed() => None,
            result = call(&self.driver) => Some(result),
        };
        match done {
            Some(result) if !plan.is_crashed() => Ok(result?),
            _ => {
                self.died = true;
                self.driver = Driver::start(self.site).await?;
                Ok(call(&self.driver).await?)
            }
        }
    }
}

async fn state(site: &Site, id: &str, serial: &str) -> Result<Value> {
    let vm = site.vm("a", |_| true).await?;
    let disks = vm.spec.template.spec.clone().unwrap().domain.devices.disks;
    let volumes = vm.spec.template.spec.unwrap().volumes;
    let claim = site.claims().get(id).await?;
    let text = json!([disks, volumes, claim.metadata.annotations, claim.spec]).to_string();
    Ok(serde_json::from_str(&text.replace(serial, "SERIAL"))?)
}

async fn life(site: &Site, plan: &FaultPlan) -> Result<(bool, Value)> {
    let driver = Driver::with(site, site.settings(), plan).await?;
    let mut life = Life {
        site,
        driver,
        died: false,
    };
    let id = life
        .call(async |driver| driver.create("pvc-1").await)
        .await?;
    let serial = life
        .call(async |driver| driver.publish(&id, "a").await)
        .await?;
    let seen = state(site, &id, &serial).await?;
    life.call(async |driver| driver.unpublish(&id, "a").await)
        .await?;
    let vm = site.vm("a", |_| true).await?;
    ensure!(!Machine::read(&vm).has(&id), "it is said to be detached");
    life.call(async |driver| driver.publish(&id, "b").await)
        .await?;
    life.call(async |driver| driver.unpublish(&id, "b").await)
        .await?;
    life.call(async |driver| driver.delete(&id).await).await?;
    ensure!(
        site.claims().get_opt(&id).await?.is_none(),
        "it is said to be gone"
    );
    Ok((life.died, seen))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_life_ends_the_same_wherever_the_controller_dies() -> Result<()> {
    let Some(site) = Site::new("crash").await? else {
        return Ok(());
    };
    let _player = Player::start(&site);
    site.machine("a").await?;
    site.machine("b").await?;
    let writes = wherever_it_dies(async |plan| life(&site, plan).await).await?;
    // Made; twice marked, plugged, unmarked, unplugged, released; deleted.
    ensure!(writes > 10, "a life has more writes than {writes}");
    Ok(())
}
