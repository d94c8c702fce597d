//! The parts of an addon in the tenant namespace are laid, kept, and then left alone.

use anyhow::{Context as _, Result};
use kit_objects::kinds::{self, Kind};
use kit_objects::object::Key;
use kube::api::DynamicObject;
use testkit::fixtures::wait_for;

use super::{Operator, PATIENCE, Site};

/// A kind by its name.
pub(crate) fn kind_of(name: &str) -> Result<Kind> {
    let found = kinds::ALL.iter().find(|kind| kind.kind == name);
    found.copied().with_context(|| name.to_owned())
}

/// Parts of the tenant cluster `demo` that are deleted come back, one by one, and afterwards nothing
/// is written.
pub(crate) async fn come_back(site: &Site, operator: &Operator, parts: &[Key]) -> Result<()> {
    for key in parts {
        let objects = site.objects(kind_of(&key.kind)?, &key.namespace);
        let uid = objects.get(&key.name).await?.metadata.uid;
        objects.delete(&key.name, &Default::default()).await?;
        let back =
            |found: Option<&DynamicObject>| found.is_some_and(|found| found.metadata.uid != uid);
        wait_for(&objects, &key.name, back, PATIENCE)
            .await
            .with_context(|| format!("{key} does not come back"))?;
    }
    site.wait_ready("demo").await?;
    operator.settle(site, "demo").await?;
    let window = site.api.audit().window()?;
    for _ in 0..3 {
        operator.reconcile(site, "demo").await?;
    }
    let writes = window.writes_of(&site.user())?;
    assert!(writes.is_empty(), "{writes:?}");
    Ok(())
}
