//! The controller dies at its k-th write, for every k of a volume's life; the sidecars call again, and
//! another one, which knows nothing, brings the same end about. Or a sidecar dies at that moment, in
//! the middle of its call, and another one calls.
//!
//! Invariant: no k is left out: runs go on until one of them ends without a death. On which side of a
//! write the controller dies is what [`testkit::faults::Deaths`] says.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use csi_proxy::cache::objects::Machine;
use serde_json::{Value, json};
use testkit::FaultPlan;
use testkit::faults::wherever_it_dies;
use tonic::{Code, Status};

use crate::support::{Driver, Environment, Fakes, PATIENCE};

/// Calls as a sidecar does: again, when the controller or the sidecar itself died on the way.
struct Life<'a> {
    environment: &'a Environment,
    driver: Driver,
    /// The write at which the sidecar dies; none: it does not, or has.
    caller_dies: Option<u64>,
    died: bool,
}

impl Life<'_> {
    async fn call<T>(&mut self, call: impl AsyncFn(&Driver) -> Result<T, Status>) -> Result<T> {
        match self.caller_dies {
            Some(k) => self.call_and_die(k, call).await,
            None => self.call_one_that_dies(call).await,
        }
    }

    async fn call_and_die<T>(
        &mut self,
        k: u64,
        call: impl AsyncFn(&Driver) -> Result<T, Status>,
    ) -> Result<T> {
        let plan = self.driver.plan.clone();
        tokio::select! {
            biased;
            () = plan.reached(k) => {}
            result = call(&self.driver) => return Ok(result?),
        }
        (self.caller_dies, self.died) = (None, true);
        self.driver.replace_caller()?;
        let driver = &self.driver;
        let again = async {
            let mut calls = tokio::time::interval(Duration::from_millis(20));
            loop {
                calls.tick().await;
                match call(driver).await {
                    // Until the driver notices that the first caller is gone.
                    Err(status) if status.code() == Code::Aborted => {}
                    result => return result,
                }
            }
        };
        let done = tokio::time::timeout(PATIENCE, again).await;
        Ok(done.context("the driver keeps a volume for a caller that is gone")??)
    }

    async fn call_one_that_dies<T>(
        &mut self,
        call: impl AsyncFn(&Driver) -> Result<T, Status>,
    ) -> Result<T> {
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
                self.driver = Driver::start(self.environment).await?;
                Ok(call(&self.driver).await?)
            }
        }
    }
}

async fn state(environment: &Environment, id: &str, serial: &str) -> Result<Value> {
    let vm = environment.vm("a", |_| true).await?;
    let disks = vm.spec.template.spec.clone().unwrap().domain.devices.disks;
    let volumes = vm.spec.template.spec.unwrap().volumes;
    let claim = environment.claims().get(id).await?;
    let text = json!([disks, volumes, claim.metadata.annotations, claim.spec]).to_string();
    Ok(serde_json::from_str(&text.replace(serial, "SERIAL"))?)
}

async fn life(
    environment: &Environment,
    plan: &FaultPlan,
    caller_dies: Option<u64>,
) -> Result<(bool, Value)> {
    let driver = Driver::with(environment, environment.settings(), plan).await?;
    let mut life = Life {
        environment,
        driver,
        caller_dies,
        died: false,
    };
    let id = life
        .call(async |driver| driver.create("pvc-1").await)
        .await?;
    let serial = life
        .call(async |driver| driver.publish(&id, "a").await)
        .await?;
    let seen = state(environment, &id, &serial).await?;
    life.call(async |driver| driver.unpublish(&id, "a").await)
        .await?;
    let vm = environment.vm("a", |_| true).await?;
    ensure!(!Machine::read(&vm).has(&id), "it is said to be detached");
    life.call(async |driver| driver.publish(&id, "b").await)
        .await?;
    life.call(async |driver| driver.unpublish(&id, "b").await)
        .await?;
    life.call(async |driver| driver.delete(&id).await).await?;
    ensure!(
        environment.claims().get_opt(&id).await?.is_none(),
        "it is said to be gone"
    );
    Ok((life.died, seen))
}

/// Two machines, where everything works.
async fn stage(prefix: &str) -> Result<Option<(Environment, Fakes)>> {
    let Some(environment) = Environment::new(prefix).await? else {
        return Ok(None);
    };
    let fakes = Fakes::start(&environment);
    environment.machine("a").await?;
    environment.machine("b").await?;
    Ok(Some((environment, fakes)))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_life_ends_the_same_wherever_the_controller_dies() -> Result<()> {
    let Some((environment, _fakes)) = stage("crash").await? else {
        return Ok(());
    };
    let writes = wherever_it_dies(async |plan| life(&environment, plan, None).await).await?;
    // Made; twice wanted, plugged, unwanted, unplugged, released; deleted.
    ensure!(writes > 10, "a life has more writes than {writes}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_life_ends_the_same_wherever_a_sidecar_dies_in_mid_call() -> Result<()> {
    let Some((environment, _fakes)) = stage("caller").await? else {
        return Ok(());
    };
    let (_, expected) = life(&environment, &FaultPlan::none(), None).await?;
    let mut k = 1;
    loop {
        let (died, seen) = life(&environment, &FaultPlan::none(), Some(k)).await?;
        ensure!(seen == expected, "died at write {k}: {seen:#?}");
        if !died {
            break;
        }
        k += 1;
    }
    ensure!(k > 10, "a life has more writes than {}", k - 1);
    Ok(())
}
