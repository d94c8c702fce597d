//! Which machines are entered, and which are not.
//!
//! Invariant: a key that is not pinned ends the connection, on each hop, and its fingerprint is said.

use anyhow::Result;
use provider_static::scripts::{FACTS, Parameters};
use provider_static::session::{AddressRules, Connector, Error, Limits, fingerprint};
use russh::keys::{Algorithm, PublicKey};

use crate::sshd::{Sshd, connector, ecdsa, is_possible, key, public, target};

fn other() -> String {
    public(&key(Algorithm::Ed25519))
}

fn shown(server: &Sshd) -> String {
    fingerprint(&PublicKey::from_openssh(&server.host_keys[0]).unwrap())
}

#[tokio::test]
async fn a_wrong_key_of_a_machine_is_refused_with_its_fingerprint() -> Result<()> {
    if !is_possible()? {
        return Ok(());
    }
    let server = Sshd::start().await?;
    let error = connector()
        .connect(&target(server.pinned(&[other()]), vec![]))
        .await;
    let error = error.unwrap_err();
    assert!(matches!(error, Error::WrongHostKey { .. }), "{error}");
    let words = error.to_string();
    assert!(
        words.contains(&shown(&server)) && words.contains("SHA256:"),
        "{words}"
    );
    assert!(words.contains("Host.spec.hostKeys"), "{words}");
    let log = std::fs::read_to_string(server.path("log"))?;
    assert!(
        !log.contains("Accepted publickey"),
        "nobody logged in: {log}"
    );
    Ok(())
}

#[tokio::test]
async fn any_of_several_pinned_keys_and_the_pinned_kind_is_enough() -> Result<()> {
    if !is_possible()? {
        return Ok(());
    }
    let server = Sshd::with("", &[Algorithm::Ed25519, ecdsa()]).await?;
    let connector = connector();
    let pins = [other(), server.host_keys[0].clone()];
    connector
        .connect(&target(server.pinned(&pins), vec![]))
        .await?;
    // The server would rather show its other key.
    let pins = [server.host_keys[1].clone()];
    connector
        .connect(&target(server.pinned(&pins), vec![]))
        .await?;
    Ok(())
}

#[tokio::test]
async fn a_jump_host_leads_to_a_machine_that_proves_itself() -> Result<()> {
    if !is_possible()? {
        return Ok(());
    }
    let (jump, machine) = (Sshd::start().await?, Sshd::start().await?);
    let connector = connector();
    let session = connector
        .connect(&target(machine.hop(), vec![jump.hop()]))
        .await?;
    let answer = session.run(&FACTS, &Parameters::default()).await?;
    assert!(!answer.get("kernel").is_empty());
    assert!(session.passed_over().is_empty());
    // The jump host's own key does not count for what is behind it.
    let wrong = target(machine.pinned(&jump.host_keys), vec![jump.hop()]);
    let error = connector.connect(&wrong).await.unwrap_err();
    let Error::WrongHostKey { hop, seen, field } = &error else {
        panic!("{error}");
    };
    assert_eq!(
        (hop, seen.as_str()),
        (&machine.hop().name(), shown(&machine).as_str())
    );
    assert_eq!(*field, "Host.spec.hostKeys");
    Ok(())
}

#[tokio::test]
async fn a_wrong_key_of_a_jump_host_is_said_and_the_next_one_is_taken() -> Result<()> {
    if !is_possible()? {
        return Ok(());
    }
    let (jump, second, machine) = (
        Sshd::start().await?,
        Sshd::start().await?,
        Sshd::start().await?,
    );
    let connector = connector();
    let forged = jump.pinned(&[other()]);
    let error = connector
        .connect(&target(machine.hop(), vec![forged.clone()]))
        .await;
    let words = error.unwrap_err().to_string();
    assert!(
        words.contains(&shown(&jump)) && words.contains("Host.spec.via"),
        "{words}"
    );
    let session = connector
        .connect(&target(machine.hop(), vec![forged, second.hop()]))
        .await?;
    assert!(matches!(
        session.passed_over(),
        [Error::WrongHostKey { .. }]
    ));
    session.run(&FACTS, &Parameters::default()).await?;
    Ok(())
}

#[tokio::test]
async fn a_jump_host_that_forwards_nothing_is_said() -> Result<()> {
    if !is_possible()? {
        return Ok(());
    }
    let jump = Sshd::with("AllowTcpForwarding no", &[Algorithm::Ed25519]).await?;
    let machine = Sshd::start().await?;
    let error = connector()
        .connect(&target(machine.hop(), vec![jump.hop()]))
        .await
        .unwrap_err();
    assert!(matches!(error, Error::Forward { .. }), "{error}");
    Ok(())
}

#[tokio::test]
async fn a_refused_login_is_said_and_tried_once() -> Result<()> {
    if !is_possible()? {
        return Ok(());
    }
    let (machine, jump, second) = (
        Sshd::start().await?,
        Sshd::start().await?,
        Sshd::start().await?,
    );
    let mut hop = machine.hop();
    hop.key = jump.hop().key;
    let error = connector()
        .connect(&target(hop, vec![jump.hop(), second.hop()]))
        .await
        .unwrap_err();
    assert!(matches!(error, Error::LoginRefused { .. }), "{error}");
    assert!(error.to_string().contains("authorized_keys"), "{error}");
    assert!(
        !second.path("log").exists(),
        "the other way leads to the same refusal"
    );
    Ok(())
}

#[tokio::test]
async fn this_machine_and_metadata_are_not_dialled() -> Result<()> {
    if !is_possible()? {
        return Ok(());
    }
    let server = Sshd::start().await?;
    let connector = Connector::new(Limits::default(), AddressRules::outside([]));
    let mut named = server.target();
    named.host.address = "localhost".to_owned();
    for target in [
        server.target(),
        named,
        target(server.hop(), vec![server.hop()]),
    ] {
        let error = connector.connect(&target).await.unwrap_err();
        assert!(matches!(error, Error::Forbidden { .. }), "{error}");
    }
    assert!(!server.path("log").exists());
    Ok(())
}

#[tokio::test]
async fn a_jump_host_that_says_nothing_is_given_up() -> Result<()> {
    if !is_possible()? {
        return Ok(());
    }
    let machine = Sshd::start().await?;
    // The kernel takes the connection, and nobody ever speaks.
    let silent = std::net::TcpListener::bind("127.0.0.1:0")?;
    let mut jump = machine.hop();
    jump.port = silent.local_addr()?.port();
    let limits = Limits {
        jump: std::time::Duration::from_millis(100),
        ..Limits::default()
    };
    let connector = Connector::new(limits, AddressRules::everywhere());
    let error = connector
        .connect(&target(machine.hop(), vec![jump]))
        .await
        .unwrap_err();
    assert!(
        matches!(
            error,
            Error::TimedOut {
                stage: "let us in",
                ..
            }
        ),
        "{error}"
    );
    Ok(())
}
