//! The process itself, killed at random moments while a client writes.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use backup::restore::choose::At;
use backup::store::directory::Directory;
use testkit::process::Process;
use testkit::waiting::{PATIENCE, ask_until};

use super::support::{TENANT, World, put};

/// What `etcd-agent backup` says, and its exit code.
fn agent(world: &World, args: &[&str]) -> Result<(i32, String)> {
    let output = Command::new(env!("CARGO_BIN_EXE_etcd-agent"))
        .arg("backup")
        .args(args)
        .args(["--prefix", "p", "--directory"])
        .arg(&world.folder)
        .output()?;
    let said = [output.stdout, output.stderr].concat();
    let said = String::from_utf8_lossy(&said).into_owned();
    Ok((output.status.code().context("it was killed")?, said))
}

fn start(world: &World, keys: &Path, number: usize) -> Result<Process> {
    let mut args = vec!["backup".to_owned(), "run".to_owned()];
    let mut flag = |name: &str, value: &str| args.push(format!("--{name}={value}"));
    flag("directory", &world.folder.display().to_string());
    flag("prefix", "p");
    flag("etcd", world.member.url());
    flag("tenant", TENANT);
    flag("cluster", &format!("{:x}", world.scope.cluster));
    flag("keys", &keys.display().to_string());
    flag("writer", &format!("backup-{number}"));
    flag("delta-ms", "200");
    let log = keys.join(format!("backup-{number}.log"));
    Process::spawn(
        "backup",
        Path::new(env!("CARGO_BIN_EXE_etcd-agent")),
        &args,
        &log,
    )
}

#[tokio::test(flavor = "multi_thread")]
async fn no_acknowledged_write_is_lost_by_a_backup_that_is_killed_at_any_moment() -> Result<()> {
    let Some(mut world) = World::new().await? else {
        return Ok(());
    };
    let keys = world.site.volume("keys");
    std::fs::write(keys.join("data-key"), world.keys.data.reveal())?;
    std::fs::write(keys.join("wrapped-key"), world.keys.wrapped.as_bytes())?;
    std::fs::write(keys.join("recovery-key"), world.recovery.reveal())?;
    let recovery = keys.join("recovery-key").display().to_string();
    ensure!(agent(&world, &["check"])?.0 == 0, "the claim can be used");

    // 200 writes a second; a death after 40 to 440 of them.
    let mut pace = tokio::time::interval(Duration::from_millis(5));
    let (mut process, mut number, mut most) = (start(&world, &keys, 0)?, 0, 0);
    let mut until_death = 200_u32;
    let mut seed = u32::from_le_bytes(backup_format::keys::random()?[..4].try_into()?);
    eprintln!("seed {seed}");
    for write in 0..2400_u32 {
        pace.tick().await;
        let key = format!("/registry/things/{}", write % 100);
        world
            .write(vec![put(&key, &write.to_be_bytes().repeat(64), 0)])
            .await?;
        until_death -= 1;
        if until_death == 0 {
            most = most.max(process.peak_mib().unwrap_or_default());
            ensure!(
                process.exited().is_none(),
                "it ended by itself: {}",
                process.log_tail(20)
            );
            process.kill();
            number += 1;
            process = start(&world, &keys, number)?;
            seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            until_death = 40 + (seed >> 16) % 400;
        }
    }
    let cluster = format!("{:x}", world.scope.cluster);
    let reached = |revision: u64| format!("whole, until revision {revision}");
    let last = world.last();
    ask_until("all of it in the claim", PATIENCE, || {
        let args = [
            "verify",
            "--tenant",
            TENANT,
            "--cluster",
            &cluster,
            "--recovery-key",
            &recovery,
        ];
        let said = agent(&world, &args);
        let ended = process.exited();
        std::future::ready(match (said, ended) {
            (_, Some(status)) => Err(anyhow::anyhow!("{status}: {}", process.log_tail(20))),
            (Ok((0, said)), None) if said.contains(&reached(last)) => Ok(Ok(())),
            (said, None) => Ok(Err(format!("{last}: {said:?}"))),
        })
    })
    .await?;
    most = most.max(process.peak_mib().unwrap_or_default());
    process.kill();
    eprintln!("{number} deaths; at most {most} MiB of memory");
    ensure!(most < 30, "{most} MiB are too many");

    let store = Directory::new(&world.folder);
    let (revision, restored, _member) = world.restore(&store, At::Latest, "restored").await?;
    assert_eq!(revision, last);
    assert!(
        restored == world.history[&last],
        "what was restored is something else"
    );
    Ok(())
}
