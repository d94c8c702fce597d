//! The Jobs of a restore in place: one for each member of etcd builds its data anew on the member's own volume, beside what
//! is there, and one removes what was there before, once that is confirmed. Where the volume of one member is left, a Job
//! before those reads it (`copy`, an etcd on the copy alone, `append`) and puts what it has beyond the backup there.
//!
//! Programs of etcd run from etcd's image and ours from our own, one container after the other:
//!
//! | Container | Image | |
//! |---|---|---|
//! | `fetch` | ours | the full snapshot, and room on the volume |
//! | `unpack` | etcd's | `etcdutl snapshot restore` of that, into the scratch folder |
//! | `etcd` | etcd's | serves it on loopback, until the pod ends |
//! | `replay` | ours | all changes after it, and a snapshot of the outcome |
//! | `build` | etcd's | `etcdutl snapshot restore` of that, with revisions raised, into the volume |
//! | `seal` | ours | notes that it is whole |
//!
//! Invariant: all members are made with the same moment, token, peers and raise, and what differs is their name alone.
//! No pod has a token, a way to etcd, or a key but the tenant cluster's data key. Long because the Jobs share their
//! containers and volumes.

use std::collections::BTreeMap;

use api::BackupTarget;
use api::tenant_cluster::RestoreProgress;
use k8s_openapi::api::batch::v1::{Job, JobSpec};
use k8s_openapi::api::core::v1::{
    Affinity, Container, EmptyDirVolumeSource, PersistentVolumeClaimVolumeSource, PodAffinity,
    PodAffinityTerm, PodSpec, PodTemplateSpec, Volume, VolumeMount,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kit_objects::object::Object;

use super::place::{self, CLAIM, Place};
use super::process::{BACKUP, CREDENTIALS, KEYS};
use super::source;
use crate::desired::pod;
use crate::meta::{meta, pod_meta};
use crate::names::{self, ETCD_RESTORE as RESTORE};
use crate::settings::Settings;
use crate::validate::validated::Validated;

/// The container that says what was built.
pub const SEAL: &str = "seal";
/// The container that says what came of a member whose volume is left.
pub const APPEND: &str = "append";
/// Where the program says it: the kubelet makes it a part of the pod's status.
pub(super) const REPORT: &str = "/dev/termination-log";
/// Folder for what is made on the way, with room for the database three times.
pub(super) const SCRATCH: &str = "/scratch";
pub(super) const SCRATCH_VOLUME: &str = "scratch";
const DATA_VOLUME: &str = "data";
/// Where the etcd of the pod serves, on loopback.
pub(super) const CLIENT: &str = "http://127.0.0.1:2379";
const PEER: &str = "http://127.0.0.1:2380";
/// Of a member that nobody else is told of.
const REPLAY: &str = "replay";
/// Longest time for all of it, tries included: the tenant cluster does not serve meanwhile.
pub(super) const DEADLINE_SECONDS: i64 = 3600;
/// How often a pod that failed is made anew: nodes fail, and targets are away for a moment.
pub(super) const RETRIES: i32 = 2;
/// How long a Job that is over is kept to be looked at.
pub(super) const KEEP_SECONDS: i32 = 3600;

/// Name of the Job that builds a member's data.
#[must_use]
pub fn build_name(restore: &str, member: &str) -> String {
    format!("restore-{}-{member}", short(restore))
}

/// Name of the Job that reads what is left of a member.
#[must_use]
pub fn salvage_name(restore: &str) -> String {
    format!("restore-{}-survivor", short(restore))
}

/// Name of the Job that removes what a member had before.
#[must_use]
pub fn forget_name(restore: &str, member: &str) -> String {
    format!("restored-{}-{member}", short(restore))
}

fn short(uid: &str) -> String {
    uid.chars().filter(|c| *c != '-').take(10).collect()
}

/// The Job that builds the data of a member, by its number, on the claim with this UID.
#[must_use]
pub fn build(
    v: &Validated,
    target: &BackupTarget,
    restore: &RestoreProgress,
    (number, claim_uid): (i32, &str),
    settings: &Settings,
) -> Object {
    let member = names::etcd_member(number);
    let mut place = Place::of(&target.spec, CREDENTIALS);
    if target.spec.claim.is_some() {
        place.volumes.push(claim(CLAIM, BACKUP));
        for mount in &mut place.mounts {
            mount.read_only = Some(true);
        }
    }
    // Of another TenantCluster: its own data key.
    let of_keys = match restore.source_uid {
        Some(_) => source::volume(),
        None => place::secret("keys", KEYS),
    };
    let keys = place.mount(of_keys, "keys");
    let volumes = [
        claim(DATA_VOLUME, &names::volume_of(&member)),
        Volume {
            name: SCRATCH_VOLUME.to_owned(),
            empty_dir: Some(EmptyDirVolumeSource::default()),
            ..Volume::default()
        },
    ];
    let scratch = format!("--scratch={SCRATCH}");
    let mut reading = place.args.clone();
    reading.extend([
        format!(
            "--tenant={}",
            restore.source_uid.as_ref().unwrap_or(&v.identity.uid)
        ),
        format!("--cluster={}", restore.cluster_id),
        format!("--data-key={keys}/data-key"),
        scratch.clone(),
    ]);
    let (data, own) = (data_mount(), scratch_mount());
    let with = |mounts: &[&VolumeMount]| mounts.iter().map(|mount| (*mount).clone()).collect();
    let with_target = |mounts: &[&VolumeMount]| {
        let mut all: Vec<_> = with(mounts);
        all.extend(place.mounts.iter().cloned());
        all
    };
    let ours = |name: &str, args: Vec<String>, mounts| ours(v, settings, name, args, mounts);
    let etcds = |name: &str, command: &[&str], args, mounts| {
        etcds(v, settings, name, command, args, mounts)
    };
    let mut fetch = vec!["fetch".to_owned(), at(&restore.moment)];
    fetch.push(format!("--least-revision={}", restore.revision));
    fetch.extend(on_volume(restore));
    fetch.extend(reading.iter().cloned());
    let mut replay = vec!["replay".to_owned(), format!("--etcd={CLIENT}")];
    replay.extend(reading);
    let mut seal = vec![
        "seal".to_owned(),
        format!("--member={member}"),
        format!("--claim={claim_uid}"),
        format!("--report={REPORT}"),
        scratch,
    ];
    seal.extend(on_volume(restore));
    let etcdutl = ["etcdutl", "snapshot", "restore"];
    let spec = PodSpec {
        init_containers: Some(vec![
            ours("fetch", fetch, with_target(&[&data, &own])),
            etcds("unpack", &etcdutl, unpack(), with(&[&own])),
            Container {
                // Beside those that follow.
                restart_policy: Some("Always".to_owned()),
                ..etcds("etcd", &["etcd"], serve(), with(&[&own]))
            },
            ours("replay", replay, with_target(&[&own])),
            etcds(
                "build",
                &etcdutl,
                build_args(v, restore, number),
                with(&[&data, &own]),
            ),
        ]),
        containers: vec![ours(SEAL, seal, with(&[&data, &own]))],
        volumes: Some(volumes.into_iter().chain(place.volumes.clone()).collect()),
        ..spec(v, None)
    };
    job(
        v,
        build_name(&restore.uid, &member),
        spec,
        place.annotations,
    )
}

/// The Job that puts what is left of a member and is in no backup into the backup. It mounts the member's volume read-only.
#[must_use]
pub fn salvage(
    v: &Validated,
    target: &BackupTarget,
    restore: &RestoreProgress,
    member: &str,
    settings: &Settings,
) -> Object {
    let mut place = Place::of(&target.spec, CREDENTIALS);
    if target.spec.claim.is_some() {
        place.volumes.push(claim(CLAIM, BACKUP));
    }
    let keys = place.mount(place::secret("keys", KEYS), "keys");
    let name = salvage_name(&restore.uid);
    let scratch = format!("--scratch={SCRATCH}");
    let data = pod::mount(DATA_VOLUME, names::ETCD_DATA_DIR, true);
    let copy = vec![
        "copy".to_owned(),
        format!("--survivor={}/data", names::ETCD_DATA_DIR),
        scratch.clone(),
    ];
    let mut append = vec![APPEND.to_owned()];
    append.extend(place.args.iter().cloned());
    append.extend([
        format!("--tenant={}", v.identity.uid),
        format!("--cluster={}", restore.cluster_id),
        format!("--keys={keys}"),
        format!("--writer={name}"),
        format!("--kubernetes={}", v.version),
        format!("--etcd={CLIENT}"),
        format!("--report={REPORT}"),
        scratch,
    ]);
    let mut mounts = vec![scratch_mount()];
    mounts.extend(place.mounts.iter().cloned());
    let volumes = [
        claim(DATA_VOLUME, &names::volume_of(member)),
        Volume {
            name: SCRATCH_VOLUME.to_owned(),
            empty_dir: Some(EmptyDirVolumeSource::default()),
            ..Volume::default()
        },
    ];
    let etcd = etcds(
        v,
        settings,
        "etcd",
        &["etcd"],
        serve_copy(),
        vec![scratch_mount()],
    );
    let spec = PodSpec {
        init_containers: Some(vec![
            ours(v, settings, "copy", copy, vec![data, scratch_mount()]),
            Container {
                restart_policy: Some("Always".to_owned()),
                ..etcd
            },
        ]),
        containers: vec![ours(v, settings, APPEND, append, mounts)],
        volumes: Some(volumes.into_iter().chain(place.volumes.clone()).collect()),
        ..spec(v, None)
    };
    job(v, name, spec, place.annotations)
}

/// The Job that removes what a member had before, beside the member: its volume is on one node.
#[must_use]
pub fn forget(
    v: &Validated,
    restore: &RestoreProgress,
    cluster_id: &str,
    number: i32,
    settings: &Settings,
) -> Object {
    let member = names::etcd_member(number);
    let mut args = vec!["forget".to_owned(), format!("--cluster={cluster_id}")];
    args.extend(on_volume(restore));
    let spec = PodSpec {
        containers: vec![ours(v, settings, "forget", args, vec![data_mount()])],
        volumes: Some(vec![claim(DATA_VOLUME, &names::volume_of(&member))]),
        ..spec(v, Some(&member))
    };
    let name = forget_name(&restore.uid, &member);
    job(v, name, spec, BTreeMap::new())
}

fn job(
    v: &Validated,
    name: String,
    spec: PodSpec,
    annotations: BTreeMap<String, String>,
) -> Object {
    Object::new(&Job {
        metadata: meta(v, &name, RESTORE),
        spec: Some(JobSpec {
            active_deadline_seconds: Some(DEADLINE_SECONDS),
            backoff_limit: Some(RETRIES),
            completions: Some(1),
            parallelism: Some(1),
            ttl_seconds_after_finished: Some(KEEP_SECONDS),
            template: PodTemplateSpec {
                metadata: Some(pod_meta(v, RESTORE, annotations, &v.etcd.pod_metadata)),
                spec: Some(spec),
            },
            ..JobSpec::default()
        }),
        ..Job::default()
    })
}

/// `beside`: the member whose node it has to be on.
fn spec(v: &Validated, beside: Option<&str>) -> PodSpec {
    let on_its_node = beside.map(|member| Affinity {
        pod_affinity: Some(PodAffinity {
            required_during_scheduling_ignored_during_execution: Some(vec![PodAffinityTerm {
                topology_key: "kubernetes.io/hostname".to_owned(),
                label_selector: Some(LabelSelector {
                    // Of the StatefulSet's own.
                    match_labels: Some(
                        [(
                            "statefulset.kubernetes.io/pod-name".to_owned(),
                            member.to_owned(),
                        )]
                        .into(),
                    ),
                    ..LabelSelector::default()
                }),
                ..PodAffinityTerm::default()
            }]),
            ..PodAffinity::default()
        }),
        ..Affinity::default()
    });
    PodSpec {
        restart_policy: Some("Never".to_owned()),
        // It has rights nowhere, and no token.
        service_account_name: None,
        // Where the volume is decides where it runs.
        topology_spread_constraints: None,
        affinity: on_its_node,
        ..pod::spec(RESTORE, &v.etcd.scheduling)
    }
}

pub(super) fn claim(volume: &str, name: &str) -> Volume {
    Volume {
        name: volume.to_owned(),
        persistent_volume_claim: Some(PersistentVolumeClaimVolumeSource {
            claim_name: name.to_owned(),
            read_only: None,
        }),
        ..Volume::default()
    }
}

fn data_mount() -> VolumeMount {
    pod::mount(DATA_VOLUME, names::ETCD_DATA_DIR, false)
}

pub(super) fn scratch_mount() -> VolumeMount {
    pod::mount(SCRATCH_VOLUME, SCRATCH, false)
}

fn on_volume(restore: &RestoreProgress) -> [String; 2] {
    [
        format!("--volume={}", names::ETCD_DATA_DIR),
        format!("--restore={}", restore.uid),
    ]
}

/// The moment as a flag.
fn at(moment: &str) -> String {
    match moment.split_once('-') {
        Some(("time", ms)) => format!("--at-ms={ms}"),
        Some(("revision", revision)) => format!("--at-revision={revision}"),
        _ => "--latest".to_owned(),
    }
}

fn replayed_on() -> [String; 4] {
    [
        format!("--name={REPLAY}"),
        format!("--initial-advertise-peer-urls={PEER}"),
        format!("--initial-cluster={REPLAY}={PEER}"),
        "--initial-cluster-token=covey-replay".to_owned(),
    ]
}

pub(super) fn unpack() -> Vec<String> {
    let mut args = vec![
        format!("{SCRATCH}/snapshot.db"),
        format!("--data-dir={SCRATCH}/{REPLAY}"),
    ];
    args.extend(replayed_on());
    args
}

/// Of an etcd that is thrown away: nothing is lost that is not in the target. What deleted many keys at once is one
/// transaction of many (`backup::restore::programs` runs the same one).
pub(super) fn serve() -> Vec<String> {
    let mut args = vec![
        format!("--data-dir={SCRATCH}/{REPLAY}"),
        format!("--listen-client-urls={CLIENT}"),
        format!("--advertise-client-urls={CLIENT}"),
        "--listen-peer-urls=http://127.0.0.1:0".to_owned(),
    ];
    args.extend(replayed_on());
    let rest = [
        "--log-level=warn",
        "--unsafe-no-fsync",
        "--snapshot-count=1000000",
        "--max-txn-ops=10000000",
        "--max-request-bytes=268435456",
        "--quota-backend-bytes=17179869184",
    ];
    args.extend(rest.map(str::to_owned));
    args
}

/// As [`serve`], of a copy that a member is left in, without the others of its cluster. Never on what others may come back
/// to: it forgets them.
fn serve_copy() -> Vec<String> {
    let mut args = serve();
    if let Some(data) = args.first_mut() {
        *data = format!("--data-dir={SCRATCH}/survivor");
    }
    args.push("--force-new-cluster".to_owned());
    args
}

/// Another token for each restore, and so another cluster, which nobody takes for the one before.
fn build_args(v: &Validated, restore: &RestoreProgress, number: i32) -> Vec<String> {
    let members: Vec<_> = (0..v.etcd.replicas)
        .map(|number| {
            let (member, peer) = (names::etcd_member(number), names::etcd_peer_url(number));
            format!("{member}={peer}")
        })
        .collect();
    vec![
        format!("{SCRATCH}/restored.db"),
        format!(
            "--data-dir={}/covey-restore-{}/data",
            names::ETCD_DATA_DIR,
            restore.uid
        ),
        format!("--name={}", names::etcd_member(number)),
        format!(
            "--initial-advertise-peer-urls={}",
            names::etcd_peer_url(number)
        ),
        format!("--initial-cluster={}", members.join(",")),
        format!("--initial-cluster-token={}-{}", v.identity.uid, restore.uid),
        format!("--bump-revision={}", restore.bump),
        "--mark-compacted".to_owned(),
    ]
}

fn ours(
    v: &Validated,
    settings: &Settings,
    name: &str,
    command: Vec<String>,
    mounts: Vec<VolumeMount>,
) -> Container {
    let images = &settings.images;
    let image = pod::own_image(settings, &images.etcd_agent_registry, &images.etcd_agent);
    let mut args = vec!["backup".to_owned()];
    args.extend(command);
    Container {
        args: Some(args),
        termination_message_path: Some(REPORT.to_owned()),
        ..container(v, name, image, mounts)
    }
}

pub(super) fn etcds(
    v: &Validated,
    settings: &Settings,
    name: &str,
    command: &[&str],
    args: Vec<String>,
    mounts: Vec<VolumeMount>,
) -> Container {
    let image = format!("{}/{}", v.registry, settings.etcd_image);
    Container {
        command: Some(command.iter().map(|word| (*word).to_owned()).collect()),
        args: Some(args),
        ..container(v, name, image, mounts)
    }
}

/// As a member has them: members are gone while it runs.
fn container(v: &Validated, name: &str, image: String, mounts: Vec<VolumeMount>) -> Container {
    Container {
        name: name.to_owned(),
        image: Some(image),
        resources: Some(pod::resources(&v.etcd.requests, &v.etcd.limits)),
        security_context: Some(pod::container_security()),
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
    fn moment_becomes_the_flag_of_its_kind() {
        assert_eq!(at("latest"), "--latest");
        assert_eq!(at("time-1795726800999"), "--at-ms=1795726800999");
        assert_eq!(at("revision-1437"), "--at-revision=1437");
    }

    #[test]
    fn names_of_jobs_are_labels_and_differ_by_restore_member_and_purpose() {
        let uid = "0a1b2c3d-1111-4222-8333-444455556666";
        let names = [
            build_name(uid, "etcd-0"),
            build_name(uid, "etcd-1"),
            build_name("1a1b2c3d-1111-4222-8333-444455556666", "etcd-0"),
            forget_name(uid, "etcd-0"),
            salvage_name(uid),
        ];
        assert_eq!(names[0], "restore-0a1b2c3d11-etcd-0");
        assert!(names.iter().all(|name| name.len() <= 63));
        let distinct: std::collections::BTreeSet<_> = names.iter().collect();
        assert_eq!(distinct.len(), names.len());
    }
}
