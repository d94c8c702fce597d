//! What commands write with `-o json`, of real ones, against the schema that others read; and what of it is objects of
//! Kubernetes.
//!
//! Invariant: each kind of the schema is written by some command here, or by a test beside the code that writes it.

use anyhow::{Context as _, Result};
use serde_json::Value;
use testkit::apiserver::ManagementApi;
use tokio::process::Command;

use super::{Ended, MASTERS, Shell, broken};
use crate::schema::findings;

/// A command without a kubeconfig.
async fn alone(line: &str) -> Result<Ended> {
    let mut command = Command::new(env!("CARGO_BIN_EXE_covey"));
    command
        .args(line.split(' '))
        .env_clear()
        .env("HOME", "/nonexistent");
    Ok(Ended::of(command.output().await?))
}

#[track_caller]
fn read(ended: &Ended, kind: &str) -> Value {
    let written: Value = serde_json::from_str(&ended.out).unwrap();
    assert_eq!(findings(&written), [""; 0], "{written:#}");
    assert_eq!(written["kind"], kind);
    written
}

#[tokio::test]
async fn what_needs_no_api_is_as_the_schema_has_it() -> Result<()> {
    for (line, code, kind) in [
        ("version --client -o json", 0, "VersionReport"),
        ("doctor -o json", 3, "DoctorReport"),
        ("explain-condition QuorumLost -o json", 0, "Reason"),
        ("explain-condition EtcdReady -o json", 0, "ConditionType"),
    ] {
        let ended = alone(line).await?.expect(code, &[], &[]);
        read(&ended, kind);
    }
    Ok(())
}

#[tokio::test]
async fn what_is_said_of_a_tenant_cluster_is_as_the_schema_has_it() -> Result<()> {
    let Some(api) = ManagementApi::bare().await? else {
        return Ok(());
    };
    let namespace = api.namespace("cli").await?;
    broken(api, &namespace).await?;
    let shell = Shell::new(api, &namespace, &[MASTERS])?;
    for (line, code, kind) in [
        ("describe demo -o json", 3, "ClusterDescription"),
        ("describe demo --all -o json", 3, "ClusterDescription"),
        ("doctor demo -o json", 3, "DoctorReport"),
        ("doctor -o json", 3, "DoctorReport"),
        ("tree demo --namespaces -o json", 0, "ClusterTree"),
        ("version -o json", 3, "VersionReport"),
        ("why QuorumLost demo -o json", 0, "Reason"),
        ("why EtcdReady demo -o json", 0, "ConditionType"),
    ] {
        let ended = shell.run(line).await?.expect(code, &[], &[]);
        read(&ended, kind);
    }

    // What is of Kubernetes is a list of its objects, each of which says what it is.
    for (line, kind) in [
        ("get -o json", "TenantCluster"),
        ("get pools -o json", "NodePool"),
        ("events -o json", "Event"),
        ("kubeconfig list -o json", "AccessGrant"),
        ("quota -o json", "TenantQuota"),
        ("hosts -o json", "Host"),
    ] {
        let ended = shell.run(line).await?.expect(0, &[], &[]);
        let list: Value = serde_json::from_str(&ended.out)?;
        assert_eq!(list["kind"], "List", "{line}");
        assert_eq!(list["apiVersion"], "v1", "{line}");
        let items = list["items"].as_array().context("no items")?;
        for item in items {
            assert_eq!(item["kind"], kind, "{line}: {item:#}");
            assert!(item["metadata"]["name"].is_string(), "{line}: {item:#}");
            assert!(item["metadata"].get("managedFields").is_none(), "{line}");
        }
    }
    Ok(())
}
