//! Commands and files over a session.
//!
//! Invariant: what a machine says or does not say ends in an answer or in words, without any secret.

use std::fs;
use std::io::Cursor;
use std::time::Duration;

use anyhow::{Context as _, Result};
use provider_static::plan::facts::Facts;
use provider_static::scripts::{FACTS, Parameters, Script};
use provider_static::session::{AddressRules, Connector, Error, Limits, Upload, Uploaded};
use russh::keys::Algorithm;
use sha2::{Digest as _, Sha256};

use crate::sshd::{Sshd, connector, is_possible};

/// No upload takes so long here.
const LONG: Duration = Duration::from_secs(600);
const SECRET: &str = "abcdef.0123456789abcdef";

fn script(text: &'static str) -> Script {
    Script { name: "test", text }
}

fn digest(content: &[u8]) -> String {
    hex::encode(Sha256::digest(content))
}

#[tokio::test]
async fn a_machine_says_what_it_is() -> Result<()> {
    if !is_possible()? {
        return Ok(());
    }
    let server = Sshd::start().await?;
    let session = connector().connect(&server.target()).await?;
    let facts = Facts::read(&session.run(&FACTS, &Parameters::default()).await?);
    assert_eq!(
        facts.kernel,
        fs::read_to_string("/proc/sys/kernel/osrelease")?.trim()
    );
    assert!(
        facts.cpus > Some(0) && facts.memory_mib > Some(0) && facts.clock > Some(0),
        "{facts:?}"
    );
    Ok(())
}

#[tokio::test]
async fn values_arrive_byte_for_byte_and_never_as_shell_text() -> Result<()> {
    if !is_possible()? {
        return Ok(());
    }
    let server = Sshd::start().await?;
    let session = connector().connect(&server.target()).await?;
    let echo = script(concat!(
        include_str!("../../src/scripts/common.sh"),
        "answer sum \"$(parameter value | sha256sum | cut -d ' ' -f 1)\" \
         environment \"$(env | cut -d = -f 1 | sort | tr '\\n' ' ')\""
    ));
    for value in [
        "$(touch /tmp/covey-never) `id` ; ' \" \\ \\n \\u0022 & | > < * ~ # %s %n\tend",
        "a\nb\n\nkey: \"value\"\n  - 'x'",
        "grüße, \u{1f980}",
        "",
    ] {
        let answer = session
            .run(&echo, &Parameters::default().plain("value", value))
            .await?;
        assert_eq!(answer.get("sum"), digest(value.as_bytes()), "{value}");
        let more: Vec<_> = answer
            .list("environment")
            .filter(|name| !["LC_ALL", "PATH", "PWD", "_", "OLDPWD", "SHLVL"].contains(name))
            .collect();
        assert_eq!(more, [""; 0]);
    }
    Ok(())
}

#[tokio::test]
async fn a_secret_is_in_nothing_that_is_kept() -> Result<()> {
    if !is_possible()? {
        return Ok(());
    }
    let server = Sshd::start().await?;
    let session = connector().connect(&server.target()).await?;
    let config = format!("kind: JoinConfiguration\n  token: {SECRET}\n");
    let parameters = Parameters::default()
        .secret("config", config)
        .hiding(SECRET);
    for text in [
        "printf '%s\\n' \"$parameters\" >&2; exit 3",
        "printf '%s' \"$parameters\"; exit 3",
        "printf '%s\\n%s\\n' \"$parameters\" \"$parameters\"",
        "printf 'xx'; printf '%s' \"$parameters\" | tr -d '{}'",
    ] {
        let error = session.run(&script(text), &parameters).await.unwrap_err();
        let kept = format!("{error} {error:?}");
        assert!(
            kept.contains("[redacted]") && !kept.contains("0123456789abcdef"),
            "{kept}"
        );
    }
    let log = fs::read_to_string(server.path("log"))?;
    assert!(!log.contains(SECRET));
    Ok(())
}

#[tokio::test]
async fn too_much_output_and_a_failure_are_said() -> Result<()> {
    if !is_possible()? {
        return Ok(());
    }
    let server = Sshd::start().await?;
    let session = connector().connect(&server.target()).await?;
    let loud = session
        .run(
            &script("head -c 1000000 /dev/zero | tr '\\0' x"),
            &Parameters::default(),
        )
        .await;
    let error = loud.unwrap_err();
    assert!(matches!(error, Error::TooMuchOutput { .. }), "{error}");
    assert!(error.to_string().len() < 2048);
    let failed = session
        .run(&script("echo no room >&2; exit 7"), &Parameters::default())
        .await;
    let error = failed.unwrap_err();
    assert!(matches!(error, Error::Failed { status: 7, .. }), "{error}");
    assert!(error.to_string().ends_with("no room"), "{error}");
    // The session goes on.
    session.run(&FACTS, &Parameters::default()).await?;
    Ok(())
}

#[tokio::test]
async fn who_does_not_become_root_is_told_how() -> Result<()> {
    if !is_possible()? {
        return Ok(());
    }
    let server = Sshd::with(
        "ForceCommand echo a password is required >&2; exit 1",
        &[Algorithm::Ed25519],
    )
    .await?;
    let mut target = server.target();
    target.escalation = provider_static::session::Escalation::Sudo;
    let session = connector().connect(&target).await?;
    let error = session
        .run(&FACTS, &Parameters::default())
        .await
        .unwrap_err();
    assert!(matches!(error, Error::NotRoot { .. }), "{error}");
    assert!(
        error.to_string().contains("NOPASSWD")
            && error.to_string().contains("password is required"),
        "{error}"
    );
    Ok(())
}

#[tokio::test]
async fn a_file_is_there_whole_or_as_it_was() -> Result<()> {
    if !is_possible()? {
        return Ok(());
    }
    let server = Sshd::start().await?;
    let session = connector().connect(&server.target()).await?;
    let content: Vec<u8> = (0..3_000_000_u32).map(|n| (n % 251) as u8).collect();
    let path = server.path("bin/kubelet");
    let file = Upload {
        path: path.display().to_string(),
        sha256: digest(&content),
        size: content.len() as u64,
        is_program: true,
    };
    let upload = async |file: &Upload, content: &[u8], within| {
        session
            .upload(file, &mut Cursor::new(content), within)
            .await
    };
    // A session whose time is over, one that was cut in a part, and a part that comes twice.
    let none = upload(&file, &content, Duration::ZERO).await?;
    assert_eq!(none, Uploaded::Partly(0));
    let first = session.send_part(&file, Some(0), &content[..1_000_000]);
    assert_eq!(first.await?, Uploaded::Partly(1_000_000));
    let again = session.send_part(&file, Some(0), &content[..1_000_000]);
    assert_eq!(again.await?, Uploaded::Partly(1_000_000));
    assert!(!path.exists());
    assert_eq!(upload(&file, &content, LONG).await?, Uploaded::Written);
    assert_eq!(fs::read(&path)?, content);
    let mode = std::os::unix::fs::PermissionsExt::mode(&fs::metadata(&path)?.permissions());
    assert_eq!(mode & 0o7777, 0o755);
    assert_eq!(upload(&file, b"", LONG).await?, Uploaded::Present);
    let other = Upload {
        sha256: digest(b"other"),
        size: 6,
        ..file.clone()
    };
    let error = upload(&other, b"forged", LONG).await.unwrap_err();
    let Error::Digest { found, .. } = &error else {
        panic!("{error}");
    };
    assert_eq!(*found, digest(b"forged"));
    assert_eq!(fs::read(&path)?, content);
    assert_eq!(
        fs::read_dir(server.path("bin"))?.count(),
        1,
        "no draft is left"
    );
    Ok(())
}

#[tokio::test]
async fn a_connection_that_is_cut_in_a_command_says_so_and_leaves_nothing_half() -> Result<()> {
    if !is_possible()? {
        return Ok(());
    }
    let server = Sshd::start().await?;
    let session = connector().connect(&server.target()).await?;
    let path = server.path("bin/kubelet");
    let file = Upload {
        path: path.display().to_string(),
        sha256: digest(b"whole"),
        size: 5,
        is_program: true,
    };
    // The other end stays open and says nothing.
    let (content, _open) = tokio::io::duplex(16);
    let begun = async {
        let mut looks = tokio::time::interval(Duration::from_millis(20));
        while fs::read_dir(server.path("bin")).map_or(0, Iterator::count) == 0 {
            looks.tick().await;
        }
        server.cut();
        Ok::<_, anyhow::Error>(())
    };
    let begun = tokio::time::timeout(Duration::from_secs(60), begun);
    let (uploaded, begun) = tokio::join!(session.send_part(&file, Some(0), content), begun);
    begun.context("the command never began")??;
    let error = uploaded.unwrap_err();
    assert!(matches!(error, Error::Cut { .. }), "{error}");
    assert!(!path.exists());
    Ok(())
}

#[tokio::test]
async fn a_silent_command_is_given_up() -> Result<()> {
    if !is_possible()? {
        return Ok(());
    }
    let server = Sshd::start().await?;
    // As short as the machine is quick: were it slower, the command would be silent all the same.
    let limits = Limits {
        silence: Duration::from_secs(2),
        connect: Duration::from_secs(60),
        login: Duration::from_secs(60),
        ..Limits::default()
    };
    let session = Connector::new(limits, AddressRules::everywhere())
        .connect(&server.target())
        .await?;
    let file = Upload {
        path: server.path("kubelet").display().to_string(),
        sha256: digest(b"whole"),
        size: 5,
        is_program: true,
    };
    let (content, _open) = tokio::io::duplex(16);
    let error = session
        .send_part(&file, Some(0), content)
        .await
        .unwrap_err();
    assert!(
        matches!(
            error,
            Error::Stuck {
                what: "says nothing for",
                ..
            }
        ),
        "{error}"
    );
    Ok(())
}

#[tokio::test]
async fn a_machine_that_vanishes_is_noticed() -> Result<()> {
    if !is_possible()? {
        return Ok(());
    }
    let server = Sshd::start().await?;
    let limits = Limits {
        keepalive: Duration::from_secs(2),
        connect: Duration::from_secs(60),
        login: Duration::from_secs(60),
        ..Limits::default()
    };
    let session = Connector::new(limits, AddressRules::everywhere())
        .connect(&server.target())
        .await?;
    server.stall();
    // The command itself would be waited for much longer.
    let error = session
        .run(&FACTS, &Parameters::default())
        .await
        .unwrap_err();
    assert!(
        matches!(error, Error::Cut { .. } | Error::Protocol { .. }),
        "{error}"
    );
    assert!(session.is_closed());
    Ok(())
}

#[tokio::test]
async fn there_are_no_more_sessions_than_places() -> Result<()> {
    if !is_possible()? {
        return Ok(());
    }
    let server = Sshd::start().await?;
    let limits = Limits {
        sessions: 1,
        turn: Duration::from_millis(1),
        connect: Duration::from_secs(60),
        login: Duration::from_secs(60),
        ..Limits::default()
    };
    let connector = Connector::new(limits, AddressRules::everywhere());
    let first = connector.connect(&server.target()).await?;
    let error = connector.connect(&server.target()).await.unwrap_err();
    assert!(matches!(error, Error::Busy { .. }), "{error}");
    drop(first);
    connector.connect(&server.target()).await?;
    Ok(())
}
