//! The Job that tests a restore beside a tenant cluster: what is in the target is restored into an etcd of its own, with
//! the programs and in the steps of a restore in place, compared with the etcd that serves, and thrown away.
//!
//! | Container | Image | |
//! |---|---|---|
//! | `fetch` | ours | the newest full snapshot |
//! | `unpack` | etcd's | `etcdutl snapshot restore` of that, into the scratch folder |
//! | `etcd` | etcd's | serves it on loopback, until the pod ends |
//! | `compare` | ours | all changes after it, and the comparison |
//!
//! Invariant: it writes nowhere but in its scratch folder, which has a bound; the target is mounted to be read, and etcd
//! is asked for keys alone. It has no volume of a member, no token, and of keys the tenant cluster's data key.

use api::BackupTarget;
use k8s_openapi::api::batch::v1::{Job, JobSpec};
use k8s_openapi::api::core::v1::{
    Affinity, Container, EmptyDirVolumeSource, PodAffinity, PodAffinityTerm, PodSpec,
    PodTemplateSpec, Volume, VolumeMount,
};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kit_objects::object::{self, Object};
use serde_json::json;

use super::place::{self, CLAIM, Place};
use super::process::{
    BACKUP, CERTIFICATE, CREDENTIALS, KEYS, RESTORE_TEST, etcd_url, own_image, resources,
};
use super::restore_jobs::{
    CLIENT, DEADLINE_SECONDS, KEEP_SECONDS, REPORT, RETRIES, SCRATCH, SCRATCH_VOLUME, claim, etcds,
    scratch_mount, serve, unpack,
};
use crate::desired::etcd::quota_backend_bytes;
use crate::desired::pod;
use crate::meta::{meta, pod_meta, selector};
use crate::settings::Settings;
use crate::validate::validated::Validated;

/// The container that says what came of it.
pub const COMPARE: &str = "compare";
/// Exit code of that where what was restored is not what etcd has (`etcd-agent backup compare`).
pub const DIFFERS: i64 = 5;
/// What the log of the etcd and the deltas take besides the database.
const ROOM_BYTES: u64 = 2 * 1024 * 1024 * 1024;

/// Name of the Job that comes after the test that ended then; another one for each, so that what one said is never taken
/// for what the next one says.
#[must_use]
pub fn name(after: Option<&str>) -> String {
    format!("{RESTORE_TEST}-{}", object::hash(&json!(after)))
}

/// The Job. `cluster_id` is the etcd cluster whose backup is read, hexadecimal; `revision` one that is known to be there.
#[must_use]
pub fn job(
    v: &Validated,
    target: &BackupTarget,
    (cluster_id, revision): (&str, u64),
    after: Option<&str>,
    settings: &Settings,
) -> Object {
    let mut place = Place::of(&target.spec, CREDENTIALS);
    let is_claim = target.spec.claim.is_some();
    if is_claim {
        place.volumes.push(claim(CLAIM, BACKUP));
        for mount in &mut place.mounts {
            mount.read_only = Some(true);
        }
    }
    let keys = place.mount(place::secret("keys", KEYS), "keys");
    let mut reading = place.args.clone();
    reading.extend([
        format!("--tenant={}", v.identity.uid),
        format!("--cluster={cluster_id}"),
        format!("--data-key={keys}/data-key"),
        format!("--scratch={SCRATCH}"),
    ]);
    let of_target = place.mounts.clone();
    let tls = place.mount(place::secret("etcd", CERTIFICATE), "etcd");
    let mut fetch = vec!["fetch".to_owned(), "--latest".to_owned()];
    fetch.push(format!("--least-revision={revision}"));
    fetch.extend(reading.iter().cloned());
    let mut compare = vec![
        COMPARE.to_owned(),
        format!("--etcd={CLIENT}"),
        format!("--live={}", etcd_url(v)),
        format!("--live-tls={tls}"),
        format!("--report={REPORT}"),
    ];
    compare.extend(reading);
    let with_scratch = |mounts: &[VolumeMount]| {
        let mut all = vec![scratch_mount()];
        all.extend(mounts.iter().cloned());
        all
    };
    let spec = PodSpec {
        init_containers: Some(vec![
            ours("fetch", fetch, with_scratch(&of_target), settings),
            etcds(
                v,
                settings,
                "unpack",
                &["etcdutl", "snapshot", "restore"],
                unpack(),
                with_scratch(&[]),
            ),
            Container {
                // Beside the one that follows.
                restart_policy: Some("Always".to_owned()),
                ..etcds(v, settings, "etcd", &["etcd"], serve(), with_scratch(&[]))
            },
        ]),
        containers: vec![ours(
            COMPARE,
            compare,
            with_scratch(&place.mounts),
            settings,
        )],
        volumes: Some(
            [scratch(v)]
                .into_iter()
                .chain(place.volumes.clone())
                .collect(),
        ),
        restart_policy: Some("Never".to_owned()),
        // It has rights nowhere, and no token.
        service_account_name: None,
        topology_spread_constraints: None,
        affinity: is_claim.then(beside_the_process),
        ..pod::spec(RESTORE_TEST, &v.etcd.scheduling)
    };
    let annotations = place.annotations;
    Object::new(&Job {
        metadata: meta(v, &name(after), RESTORE_TEST),
        spec: Some(JobSpec {
            active_deadline_seconds: Some(DEADLINE_SECONDS),
            backoff_limit: Some(RETRIES),
            completions: Some(1),
            parallelism: Some(1),
            ttl_seconds_after_finished: Some(KEEP_SECONDS),
            template: PodTemplateSpec {
                metadata: Some(pod_meta(v, RESTORE_TEST, annotations, &v.etcd.pod_metadata)),
                spec: Some(spec),
            },
            ..JobSpec::default()
        }),
        ..Job::default()
    })
}

/// Room for the database twice: as it was fetched, and as it is served. Who takes more is evicted, and the node is not
/// filled.
fn scratch(v: &Validated) -> Volume {
    let most = quota_backend_bytes(v).saturating_mul(2) + ROOM_BYTES;
    Volume {
        name: SCRATCH_VOLUME.to_owned(),
        empty_dir: Some(EmptyDirVolumeSource {
            size_limit: Some(Quantity(most.to_string())),
            medium: None,
        }),
        ..Volume::default()
    }
}

/// A claim is on the node of the process that writes to it.
fn beside_the_process() -> Affinity {
    Affinity {
        pod_affinity: Some(PodAffinity {
            required_during_scheduling_ignored_during_execution: Some(vec![PodAffinityTerm {
                topology_key: "kubernetes.io/hostname".to_owned(),
                label_selector: Some(LabelSelector {
                    match_labels: Some(selector(BACKUP)),
                    ..LabelSelector::default()
                }),
                ..PodAffinityTerm::default()
            }]),
            ..PodAffinity::default()
        }),
        ..Affinity::default()
    }
}

fn ours(
    name: &str,
    command: Vec<String>,
    mounts: Vec<VolumeMount>,
    settings: &Settings,
) -> Container {
    let mut args = vec!["backup".to_owned()];
    args.extend(command);
    Container {
        name: name.to_owned(),
        image: Some(own_image(settings)),
        args: Some(args),
        resources: Some(resources()),
        security_context: Some(pod::container_security()),
        termination_message_path: Some(REPORT.to_owned()),
        // What ends without a report has said something.
        termination_message_policy: Some("FallbackToLogsOnError".to_owned()),
        volume_mounts: Some(mounts),
        ..Container::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_test_has_a_name_of_its_own_which_is_the_same_whenever_it_is_planned() {
        let names = [
            name(None),
            name(Some("2026-11-27T00:00:00Z")),
            name(Some("2026-11-28T00:00:00Z")),
        ];
        let distinct: std::collections::BTreeSet<_> = names.iter().collect();
        assert_eq!(distinct.len(), names.len());
        assert!(names.iter().all(|name| name.len() <= 63), "{names:?}");
        assert_eq!(name(None), names[0]);
    }
}
