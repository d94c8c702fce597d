//! Contexts that lead into tenant clusters: how they are written into a kubeconfig, and how the way back is found.
//!
//! Invariant: pure. Entries of others are never changed, whatever their names; a kubeconfig that is not understood is
//! left as it is.

use insight::text;
use kube::config::{Cluster, Kubeconfig, NamedContext};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::exit::{Exit, Failure};

/// The extension of a cluster's entry.
const EXTENSION: &str = "covey.dev/tenant-cluster";

/// Whose entry it is.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Lead {
    /// The context that leads to the management cluster; absent where the file has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) management_context: Option<String>,
    /// Namespace of the TenantCluster.
    pub(crate) namespace: String,
    /// Its name.
    pub(crate) name: String,
    /// Its UID.
    #[serde(default)]
    pub(crate) uid: String,
}

/// Where the current context leads, if into a tenant cluster.
pub(crate) fn current(kubeconfig: &Kubeconfig) -> Option<Lead> {
    let current = kubeconfig.current_context.as_ref()?;
    let mut contexts = kubeconfig.contexts.iter();
    let context = contexts.find(|context| context.name == *current)?;
    of(kubeconfig, context).map(|(lead, _)| lead)
}

/// All contexts that lead into tenant clusters: their names, where they lead, and the address that they go to.
pub(crate) fn all(kubeconfig: &Kubeconfig) -> Vec<(String, Lead, String)> {
    let contexts = kubeconfig.contexts.iter();
    let found = contexts.filter_map(|context| {
        let (lead, cluster) = of(kubeconfig, context)?;
        let server = cluster.server.clone().unwrap_or_default();
        Some((context.name.clone(), lead, server))
    });
    found.collect()
}

/// Where a context leads, if into a tenant cluster.
fn of<'a>(kubeconfig: &'a Kubeconfig, context: &NamedContext) -> Option<(Lead, &'a Cluster)> {
    let cluster = &context.context.as_ref()?.cluster;
    let mut clusters = kubeconfig.clusters.iter();
    let cluster = clusters
        .find(|named| named.name == *cluster)?
        .cluster
        .as_ref()?;
    let mut extensions = cluster.extensions.iter().flatten();
    let extension = extensions.find(|extension| extension.name == EXTENSION)?;
    let lead = serde_json::from_value(extension.extension.clone()).ok()?;
    Some((lead, cluster))
}

/// What says so beside a cluster's address.
pub(crate) fn extension(lead: &Lead) -> Value {
    json!({"name": EXTENSION, "extension": lead})
}

/// Whether a kubeconfig has this context, and it does not lead into a tenant cluster.
pub(crate) fn leads_outside(kubeconfig: &Kubeconfig, context: &str) -> bool {
    let mut contexts = kubeconfig.contexts.iter();
    let is_there = contexts.any(|named| named.name == context);
    let as_current = Kubeconfig {
        current_context: Some(context.to_owned()),
        ..kubeconfig.clone()
    };
    is_there && current(&as_current).is_none()
}

/// The kubeconfig `existing` (empty: none yet) with a context called `context`, whose cluster and user are those of
/// the kubeconfig `admin`. Comments are lost; what is not ours stays.
pub(crate) fn merge(
    existing: &str,
    admin: &str,
    context: &str,
    lead: &Lead,
    is_current: bool,
) -> Result<String, Failure> {
    let mut all = match existing.trim().is_empty() {
        true => json!({"apiVersion": "v1", "kind": "Config"}),
        false => read(existing, "the kubeconfig that is there")?,
    };
    let admin = read(admin, "the kubeconfig of the tenant cluster")?;
    let part = |list: &str, key: &str| {
        let first = admin[list].get(0).map(|entry| entry[key].clone());
        first.filter(Value::is_object).ok_or_else(|| {
            let what = format!("the kubeconfig of the tenant cluster has no {key}");
            Failure::new(
                Exit::Failed,
                &what,
                "`covey doctor` says whether the operator can write it anew",
            )
        })
    };
    let (mut cluster, user) = (part("clusters", "cluster")?, part("users", "user")?);
    cluster["extensions"] = json!([extension(lead)]);
    let is_ours = of_cluster(&all, context).is_some_and(|entry| {
        let extensions = entry["cluster"]["extensions"].as_array();
        extensions.is_some_and(|all| all.iter().any(|e| e["name"] == EXTENSION))
    });
    let is_there = ["clusters", "users", "contexts"].into_iter().any(|list| {
        let entries = all[list].as_array();
        entries.is_some_and(|all| all.iter().any(|entry| entry["name"] == context))
    });
    if is_there && !is_ours {
        let what = format!("the kubeconfig has an entry {context} that covey did not write");
        return Err(Failure::new(
            Exit::Refused,
            &what,
            "choose another name with `--context-name`",
        ));
    }
    put(
        &mut all,
        "clusters",
        json!({"name": context, "cluster": cluster}),
    )?;
    put(&mut all, "users", json!({"name": context, "user": user}))?;
    let entry = json!({"cluster": context, "user": context});
    put(
        &mut all,
        "contexts",
        json!({"name": context, "context": entry}),
    )?;
    if is_current {
        all["current-context"] = json!(context);
    }
    serde_saphyr::to_string(&all).map_err(|error| {
        let what = format!("cannot write the kubeconfig: {error}");
        Failure::new(Exit::Failed, &what, "use `--file`")
    })
}

fn of_cluster<'a>(all: &'a Value, name: &str) -> Option<&'a Value> {
    all["clusters"]
        .as_array()?
        .iter()
        .find(|entry| entry["name"] == name)
}

fn put(all: &mut Value, list: &str, entry: Value) -> Result<(), Failure> {
    if all[list].is_null() {
        all[list] = json!([]);
    }
    let Some(entries) = all[list].as_array_mut() else {
        return Err(unread(
            "the kubeconfig that is there",
            &format!("{list} is no list"),
        ));
    };
    match entries.iter_mut().find(|old| old["name"] == entry["name"]) {
        Some(old) => *old = entry,
        None => entries.push(entry),
    }
    Ok(())
}

fn read(yaml: &str, which: &str) -> Result<Value, Failure> {
    match serde_saphyr::from_str::<Value>(yaml) {
        Ok(value) if value.is_object() => Ok(value),
        Ok(_) => Err(unread(which, "it is no mapping")),
        // The error may quote the text, which has keys in it.
        Err(_) => Err(unread(which, "it is no YAML")),
    }
}

fn unread(which: &str, why: &str) -> Failure {
    let what = text::shown(&format!("{which} cannot be read: {why}"));
    Failure::new(
        Exit::Failed,
        &what,
        "use `--file`, and look at it with `kubectl config view`",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINE: &str = "apiVersion: v1
kind: Config
preferences: {colors: true}
clusters:
- name: work
  cluster: {server: https://work.example.com}
users:
- name: me
  user: {token: abc}
contexts:
- name: work
  context: {cluster: work, user: me, namespace: team-a}
current-context: work
";
    const ADMIN: &str = "clusters:
- name: demo
  cluster: {server: https://demo.example.com:6443, certificate-authority-data: QUFB}
users:
- name: demo-admin
  user: {client-key-data: QkJC}
";

    fn lead() -> Lead {
        Lead {
            management_context: Some("work".to_owned()),
            namespace: "team-a".to_owned(),
            name: "demo".to_owned(),
            uid: "a".to_owned(),
        }
    }

    #[test]
    fn a_context_is_added_and_nothing_of_others_is_changed() {
        let merged = merge(MINE, ADMIN, "team-a/demo", &lead(), false).unwrap();
        let (before, after): (Value, Value) = (read(MINE, "").unwrap(), read(&merged, "").unwrap());
        assert_eq!(after["preferences"], before["preferences"]);
        assert_eq!(after["current-context"], "work");
        for list in ["clusters", "users", "contexts"] {
            assert_eq!(after[list][0], before[list][0]);
            assert_eq!(after[list][1]["name"], "team-a/demo");
        }
        assert_eq!(after["users"][1]["user"]["client-key-data"], "QkJC");
    }

    #[test]
    fn the_way_back_is_found_from_the_current_context_and_merging_again_changes_nothing() {
        let merged = merge(MINE, ADMIN, "team-a/demo", &lead(), true).unwrap();
        let kubeconfig = Kubeconfig::from_yaml(&merged).unwrap();
        assert_eq!(current(&kubeconfig), Some(lead()));
        let server = "https://demo.example.com:6443".to_owned();
        let expected = ("team-a/demo".to_owned(), lead(), server);
        assert_eq!(all(&kubeconfig), [expected]);
        let again = merge(&merged, ADMIN, "team-a/demo", &lead(), true).unwrap();
        assert_eq!(again, merged);
        assert_eq!(current(&Kubeconfig::from_yaml(MINE).unwrap()), None);
        let first = merge("", ADMIN, "team-a/demo", &lead(), true).unwrap();
        assert!(Kubeconfig::from_yaml(&first).is_ok());
    }

    #[test]
    fn what_others_wrote_is_not_overwritten_and_what_is_not_understood_is_left() {
        let refused = merge(MINE, ADMIN, "work", &lead(), false).unwrap_err();
        assert!(refused.mend.contains("--context-name"), "{refused}");
        for bad in ["- a", "a: [", "clusters: {}"] {
            let failure = merge(bad, ADMIN, "x", &lead(), false).unwrap_err();
            assert!(failure.what.contains("cannot be read"), "{failure}");
        }
    }
}
