//! What a user is told of a host: how to reach it, and the objects that make Covey reach it.
//!
//! Invariant: everything is said as the management cluster sees it.

use std::{fs, path::PathBuf};

use anyhow::{Context, Result};
use serde::Serialize;
use serde_json::{Value, json};

use super::keys;
use crate::{
    layout::Layout,
    ssh_host::{PORT, Role, SshHost, USER},
    state::State,
};

/// Secret with the user's key in the objects of every host.
const SECRET: &str = "lab-ssh";

/// A host.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Described {
    /// Its name.
    pub name: String,
    /// Its first process lives.
    pub runs: bool,
    /// The way to it.
    #[serde(flatten)]
    pub way: Way,
    /// Where the private key of that user is.
    pub private_key: PathBuf,
    /// Its `/etc/machine-id`.
    pub machine_id: String,
    /// Its site, if it has one.
    pub site: Option<String>,
    /// Jump hosts, each a way of its own; empty: it is reached directly.
    pub via: Vec<Way>,
    /// Version of its kubelet; none: it has no programs of a node.
    pub version: Option<String>,
    /// Its Secret and, but for jump hosts, its Host, for `kubectl apply`.
    pub objects: Vec<Value>,
}

/// One SSH server.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Way {
    /// Its address.
    pub address: String,
    /// Its port.
    pub port: u16,
    /// Who logs in.
    pub user: String,
    /// The keys that it shows.
    pub host_keys: Vec<String>,
}

/// The host `name`, which has to be there.
pub(super) fn describe(layout: &Layout, state: &State, name: &str) -> Result<Described> {
    let find = |name: &str| {
        let host = state.ssh_hosts.get(name);
        host.with_context(|| format!("there is no host {name:?}"))
    };
    let host = find(name)?;
    let way = |host: &SshHost| Way {
        address: host.place.address(state.slot).to_string(),
        port: PORT,
        user: USER.to_owned(),
        host_keys: vec![host.host_key.clone()],
    };
    let via = host.place.via.iter().map(|via| find(via).map(way));
    let via: Vec<_> = via.collect::<Result<_>>()?;
    let private_key = keys::of_user(layout)?;
    let key = fs::read_to_string(&private_key)
        .with_context(|| format!("{}: not readable", private_key.display()))?;
    let way = way(host);
    let mut objects = objects(name, &way, &via, &key);
    if host.place.role != Role::Machine {
        // Of a jump host nobody makes a node.
        objects.truncate(1);
    }
    Ok(Described {
        name: name.to_owned(),
        runs: host.host.is_alive(),
        private_key,
        machine_id: host.machine_id.clone(),
        site: host.place.site.clone(),
        version: host.version.clone(),
        objects,
        way,
        via,
    })
}

fn objects(name: &str, way: &Way, via: &[Way], key: &str) -> Vec<Value> {
    let hop = |way: &Way| {
        json!({
            "address": way.address,
            "port": way.port,
            "user": way.user,
            "sshKeySecretName": SECRET,
            "hostKeys": way.host_keys,
        })
    };
    let mut spec = hop(way);
    if !via.is_empty() {
        spec["via"] = via.iter().map(hop).collect();
    }
    vec![
        json!({
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {"name": SECRET},
            "type": "kubernetes.io/ssh-auth",
            "stringData": {"ssh-privatekey": key},
        }),
        json!({
            "apiVersion": "covey.dev/v1alpha1",
            "kind": "Host",
            "metadata": {"name": name},
            "spec": spec,
        }),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn way(address: &str) -> Way {
        Way {
            address: address.to_owned(),
            port: PORT,
            user: USER.to_owned(),
            host_keys: vec!["ssh-ed25519 AAAA".to_owned()],
        }
    }

    #[test]
    fn a_host_is_written_with_its_jump_hosts_and_one_secret_for_all() {
        let objects = objects("edge", &way("192.168.77.11"), &[way("172.28.0.11")], "key");
        assert_eq!(objects[0]["stringData"]["ssh-privatekey"], "key");
        let spec = &objects[1]["spec"];
        assert_eq!(spec["address"], "192.168.77.11");
        assert_eq!(spec["via"][0]["address"], "172.28.0.11");
        assert_eq!(
            spec["via"][0]["sshKeySecretName"],
            objects[0]["metadata"]["name"]
        );
    }

    #[test]
    fn a_host_that_is_reached_directly_has_no_jump_hosts() {
        let objects = objects("a", &way("172.28.0.11"), &[], "key");
        assert_eq!(objects[1]["spec"].get("via"), None);
    }
}
