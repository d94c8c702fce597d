//! Carries a plan of a backup out.
//!
//! Invariant: every write is fenced by the Lease; what was made or written is known to the next plan; a deletion names
//! the very object.

use backup_format::SealedIdentity;
use backup_format::keys::{DataKey, WrappingKey};
use jiff::Timestamp;
use kit_client::untyped;
use kit_client::write::{self, Deletion};
use kit_objects::kinds;
use kit_objects::object::{Key, Object};
use kube::api::{DynamicObject, PostParams, PropagationPolicy};
use serde_json::Value;
use tenant_cp::Settings;
use tenant_cp::backup::process;

use super::error::Error;
use super::identity::{self, Sealed};
use super::plan::{DataKeys, Make, Observed, Plan, wrapped_for};
use crate::FIELD_MANAGER;
use crate::context::Context;

/// Does what the plan says, and takes it into the observation.
///
/// # Errors
/// The first that comes; what was done until then stays done.
pub async fn apply(
    ctx: &Context,
    plan: &Plan,
    observed: &mut Observed,
    settings: &Settings,
    now: Timestamp,
) -> Result<(), Error> {
    if let Some(wanted) = plan.make {
        make(wanted, observed, settings, now)?;
    }
    for object in &plan.apply {
        ctx.leadership.ensure().map_err(Error::Fence)?;
        let is_key = object.kind == "Secret" && object.name == process::KEYS;
        let is_new = is_key || object.kind == kinds::JOB.kind;
        let live = match is_new && !observed.objects.contains_key(&object.key()) {
            // Never over another one, of which we may not know yet.
            true => create(ctx, object).await?,
            false => {
                let written = write::apply(&ctx.client, &object.value, FIELD_MANAGER, true).await;
                written.map_err(|source| failed(&object.key(), source))?
            }
        };
        let mut body = serde_json::to_value(&live).unwrap_or_default();
        body["apiVersion"] = object.api_version.clone().into();
        body["kind"] = object.kind.clone().into();
        observed.objects.insert(object.key(), body);
    }
    for key in &plan.delete {
        ctx.leadership.ensure().map_err(Error::Fence)?;
        if let Some(live) = observed.objects.get(key) {
            delete(ctx, key, live).await?;
        }
        observed.objects.remove(key);
    }
    Ok(())
}

async fn create(ctx: &Context, object: &Object) -> Result<DynamicObject, Error> {
    let unmade = |source: kube::Error| Error::Create(Box::new(source));
    let typed = serde_json::from_value(object.value.clone());
    let typed = typed.map_err(|error| unmade(kube::Error::SerdeError(error)))?;
    let kind = match object.kind == kinds::JOB.kind {
        true => kinds::JOB,
        false => kinds::SECRET,
    };
    let all = untyped::of(kind, &ctx.client, object.namespace.as_deref());
    let params = PostParams {
        field_manager: Some(FIELD_MANAGER.to_owned()),
        ..PostParams::default()
    };
    all.create(&params, &typed).await.map_err(unmade)
}

async fn delete(ctx: &Context, key: &Key, live: &Value) -> Result<(), Error> {
    let Some(kind) = kinds::ALL.iter().find(|kind| kind.kind == key.kind) else {
        return Ok(());
    };
    let text = |pointer: &str| live.pointer(pointer).and_then(Value::as_str);
    let deletion = Deletion {
        kind: *kind,
        namespace: Some(&key.namespace),
        name: &key.name,
        uid: text("/metadata/uid").unwrap_or_default(),
        resource_version: None,
        propagation: PropagationPolicy::Background,
    };
    let deleted = write::delete(&ctx.client, &deletion).await;
    deleted.map(drop).map_err(|source| failed(key, source))
}

fn failed(key: &Key, source: write::Error) -> Error {
    Error::Write {
        what: key.to_string(),
        source,
    }
}

fn make(
    wanted: Make,
    observed: &mut Observed,
    settings: &Settings,
    now: Timestamp,
) -> Result<(), Error> {
    let unmade = |error: &dyn std::fmt::Display| Error::Make(error.to_string());
    let uid = observed.cluster.identity_uid().to_owned();
    match wanted {
        Make::Certificate => {
            let want = process::certificate(settings);
            let wants = std::slice::from_ref(&want);
            let due = pki::plan(wants, &observed.store, now);
            pki::renew(wants, &due, &mut observed.store, now).map_err(|e| unmade(&e))
        }
        Make::Identity => {
            let bytes = observed.wrapping_key.clone().unwrap_or_default();
            let wrapping = WrappingKey::read(&bytes).map_err(|e| unmade(&e))?;
            let wanted = observed.identity(now).map_err(|e| unmade(&e))?;
            let sealed_ms = identity::next_ms(observed.sealed.as_ref(), now);
            let sealed = SealedIdentity::seal(&wrapping, &uid, sealed_ms, &wanted.text);
            observed.sealed = Some(Sealed {
                identity: sealed.map_err(|e| unmade(&e))?,
                keys: wanted.keys,
                whole: wanted.whole,
            });
            Ok(())
        }
        Make::Keys | Make::Wrap => {
            let bytes = observed.wrapping_key.clone().unwrap_or_default();
            let wrapping = WrappingKey::read(&bytes).map_err(|e| unmade(&e))?;
            let known = observed.keys.as_ref();
            let known = known.and_then(|keys| DataKey::read(&keys.data));
            let data = match known {
                Some(data) => data,
                None => DataKey::generate().map_err(|e| unmade(&e))?,
            };
            let wrapped = wrapping.wrap(&data, &uid).map_err(|e| unmade(&e))?;
            observed.keys = Some(DataKeys {
                data: data.reveal().to_vec(),
                wrapped: wrapped.as_bytes().to_vec(),
                wrapped_for: wrapped_for(&bytes),
            });
            Ok(())
        }
    }
}
