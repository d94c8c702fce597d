//! Data that etcd made and something spoiled: refused with what is wrong, and left as it is.

use std::fs;
use std::os::unix::fs::{FileExt as _, symlink};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};

use super::support::{Cluster, Site, gate, listing, running_cluster};

const DATABASE: &str = "member/snap/db";

fn segment(data: &Path) -> Result<PathBuf> {
    let entries = fs::read_dir(data.join("member/wal"))?;
    let names = entries.map(|entry| entry.unwrap().path());
    let mut segments = names.filter(|path| path.extension().is_some_and(|e| e == "wal"));
    segments.next().context("etcd made no segment")
}

/// Changes a byte of the file and back, with what `meanwhile` does in between.
fn flipped(file: &Path, at: u64, meanwhile: impl FnOnce()) -> Result<()> {
    let open = fs::File::options().read(true).write(true).open(file)?;
    let mut byte = [0];
    open.read_exact_at(&mut byte, at)?;
    open.write_all_at(&[byte[0] ^ 0x10], at)?;
    meanwhile();
    Ok(open.write_all_at(&byte, at)?)
}

#[tokio::test]
async fn spoiled_data_is_named_and_left_as_it_is() -> Result<()> {
    let Some(site) = Site::new()? else {
        return Ok(());
    };
    let volume = site.volume("volume");
    let cluster = Cluster::new("token", 1)?;
    let member = site.start(&[&volume], &cluster, &[]).await?.remove(0);
    let (cluster, id) = site.ids(&member)?;
    site.put(&member, "a", "b")?;
    member.kill();
    let identity = running_cluster(cluster, &[id]);
    let check = |problem: &str| {
        let before = listing(&volume);
        let answer = gate(&volume, "etcd-0", "existing", &identity);
        answer.is(14, "Damaged");
        assert!(answer.line.contains(problem), "{problem}: {answer:?}");
        assert_eq!(listing(&volume), before, "{problem}");
    };
    gate(&volume, "etcd-0", "existing", &identity).is(0, "Start");

    let (data, away) = (volume.join("data"), site.volume("away").join("x"));
    let first = segment(&data)?;
    // In the metadata; in a length; in the kind of the first record.
    flipped(&first, 44, || check("checksum"))?;
    flipped(&first, 3, || check("bytes where a small one belongs"))?;
    flipped(&first, 9, || check("of kind 20"))?;

    let length = first.metadata()?.len();
    fs::rename(&first, &away)?;
    fs::write(&first, "")?;
    check("ends before it says whose it is");
    fs::write(&first, vec![0; 100_000])?;
    check("ends before it says whose it is");
    fs::remove_file(&first)?;
    symlink(&away, &first)?;
    check("is not a file");
    fs::remove_file(&first)?;
    // Also a segment that is prepared is none.
    check("log");
    fs::rename(&away, &first)?;
    assert_eq!(first.metadata()?.len(), length);

    fs::rename(data.join(DATABASE), &away)?;
    check("log and not its database");
    symlink(&away, data.join(DATABASE))?;
    check("log and not its database");
    fs::remove_file(data.join(DATABASE))?;
    fs::rename(&away, data.join(DATABASE))?;

    let wal = data.join("member/wal");
    fs::rename(&wal, &away)?;
    check("database and not its log");
    symlink(&away, &wal)?;
    check("member/wal");
    fs::remove_file(&wal)?;
    fs::write(
        data.join("member/snap/0000000000000002-0000000000000004.snap"),
        "",
    )?;
    check("member/snap/0000000000000002-0000000000000004.snap");
    fs::remove_file(data.join("member/snap/0000000000000002-0000000000000004.snap"))?;
    fs::rename(&away, &wal)?;

    let marker = volume.join("covey-etcd-member.json");
    let good = fs::read(&marker)?;
    for bad in ["", "{", "{\"name\": \"etcd-0\"}", &"x".repeat(10_000)] {
        fs::write(&marker, bad)?;
        check("marker");
    }
    fs::write(&marker, good)?;
    // All of it was put back, and etcd agrees.
    gate(&volume, "etcd-0", "existing", &identity).is(0, "Start");
    Ok(())
}
