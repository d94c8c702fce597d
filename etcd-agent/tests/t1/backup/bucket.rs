//! A real S3 endpoint.

use std::net::TcpListener;
use std::process::Command;
use std::sync::Arc;

use anyhow::{Result, ensure};
use backup::check::check;
use backup::restore::choose::At;
use backup::store::{Cause, Created, Store as _};
use backup_s3::{Bucket, Settings};
use testkit::s3;
use tokio::sync::watch;

use super::support::{Running, World, quick};

fn settings(port: u16) -> Settings {
    Settings {
        endpoint: Some(format!("http://127.0.0.1:{port}")),
        bucket: s3::BUCKET.to_owned(),
        region: s3::REGION.to_owned(),
        access_key_id: s3::ACCESS_KEY_ID.to_owned(),
        secret_access_key: s3::SECRET_ACCESS_KEY.to_owned(),
        ca_bundle: None,
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bucket_holds_a_backup_that_is_restored_from_there() -> Result<()> {
    let Some(mut world) = World::new().await? else {
        return Ok(());
    };
    let Some((_gateway, port)) = s3::serve(&world.folder).await? else {
        return Ok(());
    };
    let store = Arc::new(Bucket::new(&settings(port))?);
    check(&*store, "of-a-test").await?;
    let identity = world.sealed(1_000, b"the keys")?;
    let name = identity.name();
    let mut options = world.options(quick(), "a");
    let (_told, of_it) = watch::channel(Some(identity));
    options.identity = of_it;
    let mut running = Running::start(store.clone(), &world.etcd, options);
    for _ in 0..3 {
        world.write_many(20).await?;
        running.durable(world.last()).await?;
    }
    running
        .until(|progress| progress.verified.is_some() && progress.identity == Some(name))
        .await?;
    running.stop().await?;
    let reader = world.reader(&*store);
    let document = reader.open_identity(name, &world.recovery).await?;
    assert_eq!(document, b"the keys");
    let (revision, restored, _member) = world.restore(&*store, At::Latest, "restored").await?;
    assert_eq!(revision, world.last());
    assert!(restored == world.history[&revision]);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bucket_that_cannot_be_used_says_which_call_failed_and_why() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let Some((_gateway, port)) = s3::serve(folder.path()).await? else {
        return Ok(());
    };
    let store = Bucket::new(&settings(port))?;
    assert_eq!(store.create("a/b", "one".into()).await?, Created::New);
    assert_eq!(store.create("a/b", "two".into()).await?, Created::Exists);
    assert_eq!(store.get("a/b", 10).await?, "one");
    assert_eq!(
        store.get("a/c", 10).await.unwrap_err().cause,
        Cause::NotFound
    );
    assert_eq!(store.get("a/b", 2).await.unwrap_err().cause, Cause::TooLong);
    store.delete("a/b").await?;
    store.delete("a/b").await?;
    assert_eq!(store.list("a/", None).await?.objects, []);

    let asked = async |change: &dyn Fn(&mut Settings)| {
        let mut settings = settings(port);
        change(&mut settings);
        check(&Bucket::new(&settings).unwrap(), "of-a-test")
            .await
            .unwrap_err()
    };
    let wrong_key = asked(&|s| s.secret_access_key = "another".to_owned()).await;
    assert_eq!(wrong_key.cause(), Cause::Rights, "{wrong_key}");
    assert!(wrong_key.to_string().starts_with("list of "), "{wrong_key}");
    let no_bucket = asked(&|s| s.bucket = "absent".to_owned()).await;
    assert_eq!(no_bucket.cause(), Cause::NoBucket, "{no_bucket}");
    let region = asked(&|s| s.region = "eu-central-1".to_owned()).await;
    assert_eq!(region.cause(), Cause::Region, "{region}");
    let tls = asked(&|s| s.endpoint = Some(format!("https://127.0.0.1:{port}"))).await;
    assert_eq!(tls.cause(), Cause::Tls, "{tls}");
    let nobody = TcpListener::bind(("127.0.0.1", 0))?.local_addr()?.port();
    let away = asked(&|s| s.endpoint = Some(format!("http://127.0.0.1:{nobody}"))).await;
    assert_eq!(away.cause(), Cause::Unreachable, "{away}");
    Ok(())
}

/// Our image has no authorities of its own.
#[tokio::test(flavor = "multi_thread")]
async fn a_bucket_can_be_used_where_the_system_has_no_authorities() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let Some((_gateway, port)) = s3::serve(folder.path()).await? else {
        return Ok(());
    };
    for (name, value) in [
        ("access-key-id", s3::ACCESS_KEY_ID),
        ("secret-access-key", s3::SECRET_ACCESS_KEY),
    ] {
        std::fs::write(folder.path().join(name), value)?;
    }
    let output = Command::new(env!("CARGO_BIN_EXE_etcd-agent"))
        .args(["backup", "check", "--prefix=p"])
        .arg(format!("--s3-endpoint=http://127.0.0.1:{port}"))
        .arg(format!("--s3-bucket={}", s3::BUCKET))
        .arg(format!("--s3-region={}", s3::REGION))
        .arg(format!("--s3-credentials={}", folder.path().display()))
        .env("SSL_CERT_FILE", "/dev/null")
        .env("SSL_CERT_DIR", folder.path())
        .output()?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{said}");
    Ok(())
}
