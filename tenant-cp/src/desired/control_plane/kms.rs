//! KMS plugins: containers beside the kube-apiserver, each with its socket in a folder that nobody else of the pod writes to.
//!
//! They are the first of the pod, so they are there before the kube-apiserver starts and end after it (restartable init
//! containers end in reverse order). None is probed: that its KMS is away takes no API away. That a new kube-apiserver finds
//! it working says its own start-up probe ([`super::apiserver`]).
//! Invariant: a plugin whose provider the file of kube-apiservers names is in the pod.

use k8s_openapi::api::core::v1::{
    Container, EnvFromSource, EnvVar, PodSpec, ProjectedVolumeSource, SecretEnvSource,
    ServiceAccountTokenProjection, Volume, VolumeMount, VolumeProjection,
};

use crate::desired::pod;
use crate::kms::{Kms, SOCKET, SOCKETS};
use crate::settings::Settings;
use crate::settings::encryption::KmsPlugin;

/// Where a plugin finds its token.
const TOKEN_DIR: &str = "/var/run/secrets/kms";
/// Seconds that a token lasts; the kubelet renews it when a fifth is left.
const TOKEN_SECONDS: i64 = 3600;

/// Adds those that kube-apiservers are told of. One that the configuration does not have any more cannot be added: whoever
/// plans does not have such a pod made.
pub(super) fn add(kms: &Kms, settings: &Settings, pod: &mut PodSpec) {
    let names = kms.names();
    let plugins = || names.iter().filter_map(|name| settings.encryption.of(name));
    if names.is_empty() {
        return;
    }
    let others = pod.init_containers.take().unwrap_or_default();
    let all = plugins().map(container).chain(others);
    pod.init_containers = Some(all.collect());
    let volumes = pod.volumes.get_or_insert_default();
    for plugin in plugins() {
        volumes.push(pod::empty_dir(&volume(&plugin.name), "1Mi"));
        volumes.extend(token(plugin));
    }
    // The kube-apiserver connects, and writes nothing there.
    for container in &mut pod.containers {
        let mounts = container.volume_mounts.get_or_insert_default();
        mounts.extend(plugins().map(|plugin| sockets(plugin, true)));
    }
}

fn volume(name: &str) -> String {
    format!("kms-{name}")
}

fn token_volume(name: &str) -> String {
    format!("kms-{name}-token")
}

fn sockets(plugin: &KmsPlugin, read_only: bool) -> VolumeMount {
    let folder = format!("{SOCKETS}/{}", plugin.name);
    pod::mount(&volume(&plugin.name), &folder, read_only)
}

fn token(plugin: &KmsPlugin) -> Option<Volume> {
    let audience = plugin.token_audience.clone()?;
    let token = ServiceAccountTokenProjection {
        audience: Some(audience),
        expiration_seconds: Some(TOKEN_SECONDS),
        path: "token".to_owned(),
    };
    Some(Volume {
        name: token_volume(&plugin.name),
        projected: Some(ProjectedVolumeSource {
            default_mode: Some(0o440),
            sources: Some(vec![VolumeProjection {
                service_account_token: Some(token),
                ..VolumeProjection::default()
            }]),
        }),
        ..Volume::default()
    })
}

fn container(plugin: &KmsPlugin) -> Container {
    let variable = |name: &str, value: &str| EnvVar {
        name: name.to_owned(),
        value: Some(value.to_owned()),
        ..EnvVar::default()
    };
    // First, because what stands after it may name it.
    let socket = format!("{SOCKETS}/{}/{SOCKET}", plugin.name);
    let mut env = vec![variable("KMS_SOCKET", &socket)];
    env.extend(plugin.env.iter().map(|(name, value)| variable(name, value)));
    let secret = plugin.env_from_secret.as_ref().map(|name| {
        vec![EnvFromSource {
            secret_ref: Some(SecretEnvSource {
                name: name.clone(),
                optional: None,
            }),
            ..EnvFromSource::default()
        }]
    });
    let mut mounts = vec![sockets(plugin, false)];
    if plugin.token_audience.is_some() {
        let name = token_volume(&plugin.name);
        mounts.push(pod::mount(&name, TOKEN_DIR, true));
    }
    let some = |words: &[String]| (!words.is_empty()).then(|| words.to_vec());
    Container {
        name: volume(&plugin.name),
        image: Some(plugin.image.clone()),
        command: some(&plugin.command),
        args: some(&plugin.args),
        env: Some(env),
        env_from: secret,
        restart_policy: Some("Always".to_owned()),
        resources: Some(pod::resources(&plugin.requests, &plugin.limits)),
        termination_message_policy: pod::last_lines(),
        security_context: Some(pod::container_security()),
        volume_mounts: Some(mounts),
        ..Container::default()
    }
}
