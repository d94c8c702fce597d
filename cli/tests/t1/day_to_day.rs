//! What people do with a tenant cluster from day to day: snapshots, restores, rotations, logs, a report of a bug.
//!
//! Invariant: what is asked for is an object, and its fields are those that were said.

use std::path::Path;

use anyhow::Result;
use api::{Restore, Snapshot, TenantCluster};
use kube::api::{Api, ListParams, Patch, PatchParams};
use serde_json::json;
use testkit::apiserver::ManagementApi;
use tokio::process::Command;

use super::{CANARY, Ended, MASTERS, Shell, broken};

/// Everything in an archive, as tar reads it.
async fn dumped(file: &Path) -> Result<String> {
    use std::os::unix::fs::PermissionsExt as _;
    let mode = std::fs::metadata(file)?.permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let mut tar = Command::new("tar");
    let output = tar
        .args(["--extract", "--gzip", "--to-stdout", "--file"])
        .arg(file)
        .output()
        .await?;
    assert!(output.status.success(), "{output:?}");
    Ok(String::from_utf8(output.stdout)?)
}

#[tokio::test]
async fn what_is_done_from_day_to_day_is_asked_for_in_objects() -> Result<()> {
    let Some(api) = ManagementApi::bare().await? else {
        return Ok(());
    };
    let namespace = api.namespace("cli").await?;
    broken(api, &namespace).await?;
    let (shell, client) = (Shell::new(api, &namespace, &[MASTERS])?, api.admin()?);
    let clusters: Api<TenantCluster> = Api::namespaced(client.clone(), &namespace);
    let snapshots: Api<Snapshot> = Api::namespaced(client.clone(), &namespace);
    let restores: Api<Restore> = Api::namespaced(client, &namespace);

    for line in ["snapshot demo", "restore demo --yes"] {
        let refused = shell.run(line).await?;
        refused.expect(7, &[], &["demo has no backup", "spec.backup.target"]);
    }
    let backup = json!({"spec": {"backup": {"target": "off-site"}}});
    let params = PatchParams::default();
    clusters
        .patch("demo", &params, &Patch::Merge(&backup))
        .await?;
    let taken = shell
        .run("snapshot demo --keep-until 2027-06-30T00:00:00Z")
        .await?;
    taken.expect(
        0,
        &["snapshot.covey.dev/demo-"],
        &["covey get snapshots demo-"],
    );
    let taken = snapshots.list(&ListParams::default()).await?.items;
    assert_eq!(taken.len(), 1);
    assert_eq!(taken[0].spec.cluster_name, "demo");
    assert_eq!(
        taken[0].spec.keep_until.as_deref(),
        Some("2027-06-30T00:00:00Z")
    );
    let bad = shell.run("snapshot demo --keep-until tomorrow").await?;
    bad.expect(7, &[], &["keepUntil"]);

    let line = "restore demo --to 2026-11-26T20:00:00Z";
    let unasked = shell.run(line).await?;
    unasked.expect(
        2,
        &[],
        &[
            "written after that is lost",
            "there is no terminal to ask at",
            "--yes",
        ],
    );
    assert_eq!(restores.list(&ListParams::default()).await?.items, []);
    let begun = shell.run(&format!("{line} --yes")).await?;
    begun.expect(0, &["restore.covey.dev/demo-"], &[]);
    let begun = restores.list(&ListParams::default()).await?.items;
    let at = begun[0].spec.at.clone().unwrap_or_default();
    assert_eq!(at.time.as_deref(), Some("2026-11-26T20:00:00Z"));
    assert!(!begun[0].spec.dry_run && !begun[0].spec.confirmed);
    let dry = shell.run("restore demo --dry-run").await?;
    dry.expect(0, &["restore.covey.dev/demo-"], &["covey get restores"]);

    let turned = shell.run("rotate demo usersCA").await?;
    turned.expect(0, &[], &["usersCA is turned to generation 2"]);
    let unknown = shell.run("rotate demo everything").await?;
    unknown.expect(2, &[], &["there is no everything to turn", "usersCA"]);
    let strange = shell.run("rotate demo usersCA --compromised").await?;
    strange.expect(
        2,
        &[],
        &["usersCA is turned without --compromised", "clusterCA"],
    );
    shell
        .run("rotate demo usersCA --hold")
        .await?
        .expect(0, &[], &[]);
    let turn = clusters.get("demo").await?.spec.rotation.users_ca;
    assert_eq!(
        turn.map(|turn| (turn.generation, turn.hold)),
        Some((2, true))
    );

    let names = shell.run("logs demo -o name").await?;
    names.expect(0, &["etcd-0/etcd\n"], &[]);
    // Of a pod that no node has the API gives an empty log.
    let read = shell.run("logs demo etcd").await?.expect(0, &[], &[]);
    assert_eq!(read.out, "");
    let none = shell.run("logs demo csi").await?;
    none.expect(5, &[], &["nothing of demo that has a log runs"]);
    let place = tempfile::tempdir()?;
    let file = place.path().join("dump.tar.gz");
    let line = format!("sysdump demo --file {}", file.display());
    let listed = shell.run(&format!("{line} --list")).await?;
    listed.expect(0, &["/secrets.json (names", "doctor.json"], &[]);
    assert!(!file.exists());
    shell
        .run(&line)
        .await?
        .expect(0, &["dump.tar.gz\n"], &["Secrets were not read"]);
    let dumped = dumped(&file).await?;
    for part in [
        "TenantCluster",
        "DoctorReport",
        "demo-workers",
        "etcd-0",
        "SysdumpIndex",
    ] {
        assert!(dumped.contains(part), "{part}: {dumped}");
    }
    assert!(!dumped.contains(CANARY), "{dumped}");
    let again = shell.run(&line).await?;
    again.expect(1, &[], &["cannot write", "--file"]);
    let file = place.path().join("masked.tar.gz");
    let mut masked = shell.command(&format!(
        "sysdump demo --anonymize --file {}",
        file.display()
    ));
    let masked = masked.env("XDG_STATE_HOME", place.path()).output().await?;
    Ended::of(masked).expect(0, &["masked.tar.gz\n"], &[]);
    let names = std::fs::read_to_string(place.path().join("masked.tar.gz.names"))?;
    assert!(
        names.contains(" demo\n") && names.contains(&namespace),
        "{names}"
    );
    let dumped = self::dumped(&file).await?;
    assert!(
        dumped.contains("SysdumpIndex") && !dumped.contains(&namespace),
        "{dumped}"
    );
    assert!(!dumped.contains("demo-workers"), "{dumped}");
    let version = shell.run("version").await?;
    version.expect(
        3,
        &[
            "client",
            "management  v1.",
            "there is no operator in covey-system",
        ],
        &[],
    );
    Ok(())
}
