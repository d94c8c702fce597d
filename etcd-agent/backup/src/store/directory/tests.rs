//! A directory of a real file system.
//!
//! Invariant: nothing outside of it is touched.

use super::*;
use std::collections::BTreeSet;
use std::os::unix::fs::symlink;

async fn keys(store: &Directory, folder: &str, after: Option<&str>) -> Vec<String> {
    let page = store.list(folder, after).await.unwrap();
    assert!(!page.more);
    page.objects.into_iter().map(|entry| entry.key).collect()
}

#[tokio::test]
async fn an_object_is_created_once_read_listed_and_deleted() {
    let folder = tempfile::tempdir().unwrap();
    let store = Directory::new(folder.path());
    let create = |key, text: &'static str| store.create(key, text.into());
    assert_eq!(create("t/c/delta/1", "one").await, Ok(Created::New));
    assert_eq!(create("t/c/delta/1", "two").await, Ok(Created::Exists));
    assert_eq!(create("t/c/delta/2", "two").await, Ok(Created::New));
    assert_eq!(create("other/1", "x").await, Ok(Created::New));
    assert_eq!(store.get("t/c/delta/1", 3).await.unwrap(), "one");
    let too_long = store.get("t/c/delta/1", 2).await.unwrap_err();
    assert_eq!(too_long.cause, Cause::TooLong);
    assert_eq!(
        keys(&store, "t/c/", None).await,
        ["t/c/delta/1", "t/c/delta/2"]
    );
    assert_eq!(
        keys(&store, "t/c/", Some("t/c/delta/1")).await,
        ["t/c/delta/2"]
    );
    assert_eq!(keys(&store, "absent/", None).await, [""; 0]);
    for key in ["t/c/delta/1", "t/c/delta/2", "t/c/delta/2"] {
        assert_eq!(store.delete(key).await, Ok(()));
    }
    let absent = store.get("t/c/delta/1", 9).await.unwrap_err();
    assert_eq!((absent.call, absent.cause), (Call::Get, Cause::NotFound));
    assert!(!folder.path().join("t").exists());
    assert_eq!(keys(&store, "", None).await, ["other/1"]);
}

#[tokio::test]
async fn of_many_who_create_one_object_one_does_and_it_is_whole() {
    let folder = tempfile::tempdir().unwrap();
    let store = Directory::new(folder.path());
    let racers = (0..16_u8).map(|number| {
        let store = store.clone();
        tokio::spawn(async move {
            let bytes = vec![number; 100_000];
            store.create("t/c/delta/1", bytes.into()).await.unwrap()
        })
    });
    let racers: Vec<_> = racers.collect();
    let mut new = 0;
    for racer in racers {
        new += usize::from(racer.await.unwrap() == Created::New);
    }
    assert_eq!(new, 1);
    let bytes = store.get("t/c/delta/1", 200_000).await.unwrap();
    let kinds: BTreeSet<_> = bytes.iter().collect();
    assert_eq!((bytes.len(), kinds.len()), (100_000, 1));
    // Nobody left anything behind.
    assert_eq!(
        fs::read_dir(folder.path().join(UNNAMED)).unwrap().count(),
        0
    );
}

#[tokio::test]
async fn what_is_no_directory_is_not_made_one() {
    let folder = tempfile::tempdir().unwrap();
    let store = Directory::new(&folder.path().join("absent"));
    let failed = store.create("a", "x".into()).await.unwrap_err();
    assert_eq!((failed.call, failed.cause), (Call::Create, Cause::NoBucket));
    assert_eq!(
        store.list("", None).await.unwrap_err().cause,
        Cause::NoBucket
    );
    assert!(!folder.path().join("absent").exists());
}

#[tokio::test]
async fn no_key_leads_out_of_the_directory() {
    let folder = tempfile::tempdir().unwrap();
    let store = Directory::new(folder.path());
    for key in ["../x", "a/../../x", "/etc/x", "a//b", ".unnamed/x"] {
        assert!(store.create(key, "x".into()).await.is_err(), "{key}");
        assert!(store.get(key, 9).await.is_err(), "{key}");
    }
    // A link is nothing that was created, and is not followed by lists.
    symlink("/etc", folder.path().join("etc")).unwrap();
    assert_eq!(keys(&store, "", None).await, [""; 0]);
}

#[tokio::test]
async fn what_a_dead_process_left_behind_goes_after_an_hour() {
    let folder = tempfile::tempdir().unwrap();
    let unnamed = folder.path().join(UNNAMED);
    fs::create_dir(&unnamed).unwrap();
    for (name, age) in [("old", 7200), ("young", 60)] {
        let file = File::create(unnamed.join(name)).unwrap();
        let at = SystemTime::now() - Duration::from_secs(age);
        file.set_modified(at).unwrap();
    }
    let store = Directory::new(folder.path());
    store.create("a", "x".into()).await.unwrap();
    assert!(!unnamed.join("old").exists() && unnamed.join("young").exists());
}
