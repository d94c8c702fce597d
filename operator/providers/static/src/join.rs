//! What a machine is told to become a node. Pure.
//!
//! Invariant: for the same Host, Machine and user data it is the same, byte for byte; the token in it is a secret of
//! the parameters, so nothing that is kept has it.

use api::{Host, Machine, names};
use kube::ResourceExt;
use serde_json::{Value, json};

use crate::programs::Archives;
use crate::scripts::parameters::Parameters;

/// kubeadm refuses cgroup v1 from 1.35 on, whatever the kubelet is told (`SystemVerification`).
const SYSTEM_VERIFICATION: &str = "SystemVerification";
/// What the kubelet refuses it by, from 1.35 on unless it is told otherwise; a field of its configuration from 1.31 on.
const FAIL_CGROUP1: &str = "failCgroupV1";
/// Where the script `join` puts what changes the kubelet's configuration.
const PATCHES: &str = "/run/covey/patches";

/// What the platform says of all such machines.
#[derive(Clone, Debug, Default)]
pub struct Settings {
    /// Machines that have only cgroup v1 may become nodes.
    pub allows_cgroup1: bool,
    /// `config.toml` of containerd; empty: the machine's own.
    pub containerd: String,
    /// Programs that can be sent.
    pub programs: Archives,
}

/// Why there is nothing to tell it. In none of them is anything of the user data.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum Error {
    /// They were blanked, which is done once the node joined, or somebody changed them.
    #[error(
        "the Secret with what the machine is told has no kubeadm configuration: its node joined already, or somebody \
         changed it; delete the Machine to have it replaced"
    )]
    NoConfiguration,
    /// As [`Self::NoConfiguration`].
    #[error(
        "the Secret with what the machine is told has no token: delete the Machine to have it replaced"
    )]
    NoToken,
    /// What is to be sent cannot be.
    #[error("{0}")]
    Programs(String),
}

/// What the script `join` is told. `user_data`: as `tenant_cp::node::user_data::session_data` wrote it; `ca`: SHA-256
/// of the authority that the kubelet will believe, in hexadecimal.
///
/// # Errors
/// [`Error`].
pub fn parameters(
    host: &Host,
    machine: &Machine,
    (user_data, ca): (&str, &str),
    settings: &Settings,
) -> Result<Parameters, Error> {
    let programs = settings.programs.for_host(&machine.spec.version, host);
    let data: Value = serde_json::from_str(user_data).map_err(|_| Error::NoConfiguration)?;
    let text = |value: &Value| value.as_str().map(str::to_owned);
    let mut configuration = data["configuration"].clone();
    let token = text(&configuration["discovery"]["bootstrapToken"]["token"]);
    let token = token.ok_or(Error::NoToken)?;
    let node = configuration["nodeRegistration"]
        .as_object_mut()
        .ok_or(Error::NoConfiguration)?;
    let name = machine.name_any();
    let id = names::static_provider_id(&host.name_any(), &name);
    let arguments = node.entry("kubeletExtraArgs").or_insert_with(|| json!([]));
    let arguments = arguments.as_array_mut().ok_or(Error::NoConfiguration)?;
    arguments.push(json!({ "name": "provider-id", "value": id }));
    // Else it would look for one itself, and which it finds is no matter of ours: its certificate is for this one.
    if let Some(address) = host.node_address() {
        arguments.push(json!({ "name": "node-ip", "value": address.to_string() }));
    }
    let status = host.status.as_ref();
    let facts = status.and_then(|status| status.facts.as_ref());
    let claim = status.and_then(|status| status.claim.as_ref());
    // What leads there comes with the overlay's program, which runs on the kubelet.
    let given = host.node_address();
    let given = given.filter(|_| claim.is_some_and(|claim| claim.in_overlay));
    let mut kubelet = text(&data["kubelet"]).unwrap_or_default();
    if settings.allows_cgroup1 && facts.is_some_and(|facts| !facts.cgroup2) {
        node.insert(
            "ignorePreflightErrors".to_owned(),
            json!([SYSTEM_VERIFICATION]),
        );
        kubelet = with_cgroup1(&kubelet)?;
        configuration["patches"] = json!({ "directory": PATCHES });
    }
    Ok(Parameters::default()
        .plain("ca", ca)
        .plain("version", &machine.spec.version)
        .plain("nodeName", name)
        .plain(
            "address",
            given.map(|address| address.to_string()).unwrap_or_default(),
        )
        .plain(
            "programs",
            programs.map_or_else(String::new, |archive| archive.sha256.clone()),
        )
        .plain("containerdConfig", settings.containerd.trim_end())
        .plain("kubelet", kubelet)
        // As JSON, which is YAML that every reader takes alike.
        .secret("config", format!("{configuration}\n"))
        .hiding(&token))
}

/// What the script `join` is told where a node is taken over as it runs: the way to the API and its authority, which are
/// no secrets. `user_data`: as `tenant_cp::node::user_data::adoption_data` wrote it.
///
/// # Errors
/// [`Error::NoConfiguration`].
pub fn adoption(machine: &Machine, (user_data, ca): (&str, &str)) -> Result<Parameters, Error> {
    let data: Value = serde_json::from_str(user_data).map_err(|_| Error::NoConfiguration)?;
    let text = |key: &str| data["adoption"][key].as_str().filter(|text| is_plain(text));
    let told = text("server").zip(text("authority"));
    let (server, authority) = told.ok_or(Error::NoConfiguration)?;
    Ok(Parameters::default()
        .plain("adopts", "true")
        .plain("ca", ca)
        .plain("nodeName", machine.name_any())
        .plain("server", server)
        .plain("authority", authority))
}

/// Of a URL or of base64: nothing that a file of YAML or awk would take for more than a text.
fn is_plain(text: &str) -> bool {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "+/=:.-_[]".contains(c);
    !text.is_empty() && text.chars().all(is_plain)
}

/// What is changed in the kubelet's configuration, and that it takes cgroup v1, too.
fn with_cgroup1(kubelet: &str) -> Result<String, Error> {
    let mut patch = match kubelet.is_empty() {
        true => json!({}),
        false => serde_json::from_str(kubelet).map_err(|_| Error::NoConfiguration)?,
    };
    let fields = patch.as_object_mut().ok_or(Error::NoConfiguration)?;
    fields.insert(FAIL_CGROUP1.to_owned(), json!(false));
    Ok(format!("{patch}\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TOKEN: &str = "abcdef.0123456789abcdef";

    fn host(cgroup2: bool) -> Host {
        serde_json::from_value(json!({
            "apiVersion": "covey.dev/v1alpha1", "kind": "Host",
            "metadata": {"name": "rack-a-1", "namespace": "team-a"},
            "spec": {"address": "192.0.2.10", "user": "root", "sshKeySecretName": "ssh", "hostKeys": ["x"]},
            "status": {"facts": {"machineID": "one", "hostKey": "x", "architecture": "amd64", "cpu": 8,
                "memory": "16000Mi", "os": "debian 12", "kernel": "6.1.0", "cgroup2": cgroup2, "tun": true}},
        }))
        .unwrap()
    }

    fn machine() -> Machine {
        serde_json::from_value(json!({
            "apiVersion": "covey.dev/v1alpha1", "kind": "Machine",
            "metadata": {"name": "w-1", "namespace": "team-a"},
            "spec": {"clusterName": "demo", "clusterUID": "tc", "poolName": "w", "version": "1.35.4",
                "provider": {"static": {}}},
        }))
        .unwrap()
    }

    fn data() -> Value {
        json!({
            "configuration": {
                "kind": "JoinConfiguration",
                "discovery": {"bootstrapToken": {"token": TOKEN}},
                "nodeRegistration": {"name": "w-1", "kubeletExtraArgs": []},
            },
            "kubelet": "{\"maxPods\": 50}\n",
        })
    }

    fn told(host: &Host, settings: &Settings) -> (Value, Value, Parameters) {
        let data = data().to_string();
        let told = parameters(host, &machine(), (&data, "ab12"), settings).unwrap();
        let line: Value = serde_json::from_str(&told.line()).unwrap();
        let configuration = serde_json::from_str(line["config"].as_str().unwrap()).unwrap();
        (line, configuration, told)
    }

    #[test]
    fn the_node_is_called_after_host_and_machine_and_the_token_is_a_secret() {
        let (line, configuration, told) = told(&host(true), &Settings::default());
        let node = &configuration["nodeRegistration"];
        assert_eq!(
            node["kubeletExtraArgs"],
            json!([
                { "name": "provider-id", "value": "static://rack-a-1/w-1" },
                { "name": "node-ip", "value": "192.0.2.10" },
            ])
        );
        assert_eq!(node.get("ignorePreflightErrors"), None);
        assert_eq!(
            (
                line["version"].as_str(),
                line["nodeName"].as_str(),
                line["ca"].as_str()
            ),
            (Some("1.35.4"), Some("w-1"), Some("ab12"))
        );
        assert_eq!(line["kubelet"], "{\"maxPods\": 50}\n");
        let kept = told.secrets().redact(TOKEN);
        assert!(!kept.contains("0123456789abcdef"), "{kept}");
    }

    #[test]
    fn an_address_in_the_overlay_is_the_nodes_and_the_machine_is_given_it() {
        let mut host = host(true);
        let arguments = |host: &Host| {
            let (line, configuration, _) = told(host, &Settings::default());
            let all = &configuration["nodeRegistration"]["kubeletExtraArgs"];
            (all[1].clone(), line["address"].clone())
        };
        let with = |claim: Value| {
            json!({"machineName": "w-1", "machineUID": "u", "tenantClusterUID": "tc",
            "nodeAddress": claim["nodeAddress"], "inOverlay": claim["inOverlay"]})
        };
        let mut says = |claim: Value| {
            host.status.as_mut().unwrap().claim = serde_json::from_value(with(claim)).unwrap();
            arguments(&host)
        };
        let node_ip = |address: &str| json!({ "name": "node-ip", "value": address });
        assert_eq!(
            says(json!({"nodeAddress": "198.18.0.7", "inOverlay": true})),
            (node_ip("198.18.0.7"), json!("198.18.0.7"))
        );
        // One of its own interfaces, whatever the spec says by now.
        assert_eq!(
            says(json!({"nodeAddress": "192.0.2.11", "inOverlay": false})),
            (node_ip("192.0.2.11"), json!(""))
        );
    }

    #[test]
    fn cgroup_v1_is_not_looked_at_only_where_it_is_allowed_and_there() {
        let allowed = Settings {
            allows_cgroup1: true,
            ..Settings::default()
        };
        let (line, configuration, _) = told(&host(false), &allowed);
        let ignored = &configuration["nodeRegistration"]["ignorePreflightErrors"];
        assert_eq!(*ignored, json!([SYSTEM_VERIFICATION]));
        let patch: Value = serde_json::from_str(line["kubelet"].as_str().unwrap()).unwrap();
        assert_eq!(patch, json!({"maxPods": 50, "failCgroupV1": false}));
        assert_eq!(configuration["patches"]["directory"], PATCHES);
        for (cgroup2, settings) in [(true, &allowed), (false, &Settings::default())] {
            let (line, configuration, _) = told(&host(cgroup2), settings);
            let node = &configuration["nodeRegistration"];
            assert_eq!(node.get("ignorePreflightErrors"), None);
            assert_eq!(line["kubelet"], "{\"maxPods\": 50}\n");
        }
    }

    #[test]
    fn cgroup_v1_is_told_to_a_kubelet_of_which_nothing_else_is_changed() {
        let allowed = Settings {
            allows_cgroup1: true,
            ..Settings::default()
        };
        let mut data = data();
        data.as_object_mut().unwrap().remove("kubelet");
        let of = |data: &Value| {
            let data = data.to_string();
            parameters(&host(false), &machine(), (&data, "ab12"), &allowed)
        };
        let line: Value = serde_json::from_str(&of(&data).unwrap().line()).unwrap();
        assert_eq!(line["kubelet"], "{\"failCgroupV1\":false}\n");
        data["kubelet"] = json!("[]");
        assert_eq!(of(&data).err(), Some(Error::NoConfiguration));
    }

    #[test]
    fn user_data_that_were_blanked_join_nobody_and_are_not_in_the_words() {
        let settings = Settings::default();
        let of = |text: &str| parameters(&host(true), &machine(), (text, "ab12"), &settings).err();
        assert_eq!(of("#cloud-config\n{}\n"), Some(Error::NoConfiguration));
        assert_eq!(of("{}"), Some(Error::NoToken));
        let mut half = data();
        half["configuration"]["nodeRegistration"] = json!(TOKEN);
        assert_eq!(of(&half.to_string()), Some(Error::NoConfiguration));
    }
}
