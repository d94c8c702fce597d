//! The folder of certificates that are kept: `$XDG_CACHE_HOME/covey/credentials`.
//!
//! Invariant: the folder is mode 0700 and each file 0600; a file is replaced as a whole, and only by who holds its lock, so
//! that of many programs that need the same certificate one asks for it. What cannot be read is as if it were not there.

use std::env;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use crate::credential::Kept;
use crate::exit::{Exit, Failure};

/// Most bytes that are read of a file.
const MOST: u64 = 1 << 20;
/// Most files that are looked through for those of grants that end.
const FILES: usize = 1000;

/// The folder.
#[derive(Clone, Debug)]
pub(crate) struct Cache(PathBuf);

/// Nobody else writes this certificate while it is held; its end is the end of the file.
pub(crate) struct Locked {
    folder: PathBuf,
    name: String,
    _lock: File,
}

impl Cache {
    /// The user's; it is made where it is not there.
    pub(crate) fn of_user() -> Result<Self, Failure> {
        let named = env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
        let named = named.filter(|path| path.is_absolute());
        let home = || env::home_dir().map(|home| home.join(".cache"));
        let Some(place) = named.or_else(home) else {
            let what =
                "XDG_CACHE_HOME is unset, and there is no home directory to keep a certificate in";
            return Err(Failure::new(
                Exit::Failed,
                what,
                "set XDG_CACHE_HOME, or use `covey kubeconfig --embed`",
            ));
        };
        Self::below(&place)
    }

    /// One below this folder.
    pub(crate) fn below(place: &Path) -> Result<Self, Failure> {
        let path = place.join("covey/credentials");
        let made = DirBuilder::new().mode(0o700).recursive(true).create(&path);
        // It may be there with another mode.
        let closed = made.and_then(|()| {
            let mode = fs::metadata(&path)?.permissions().mode();
            match mode & 0o077 {
                0 => Ok(()),
                _ => fs::set_permissions(&path, fs::Permissions::from_mode(0o700)),
            }
        });
        closed.map_err(|error| unwritten(&path, &error))?;
        Ok(Self(path))
    }

    /// What is kept under a name, without waiting for anybody.
    pub(crate) fn read(&self, name: &str) -> Option<Kept> {
        read(&self.0.join(format!("{name}.json")))
    }

    /// Waits until nobody else writes it.
    pub(crate) fn lock(&self, name: &str) -> Result<Locked, Failure> {
        let path = self.0.join(format!("{name}.lock"));
        let mut options = OpenOptions::new();
        let file = options.write(true).create(true).truncate(false).mode(0o600);
        let lock = file
            .open(&path)
            .and_then(|file| file.lock().map(|()| file))
            .map_err(|error| unwritten(&path, &error))?;
        Ok(Locked {
            folder: self.0.clone(),
            name: name.to_owned(),
            _lock: lock,
        })
    }

    /// Forgets what was kept of these grants of a namespace.
    pub(crate) fn forget(&self, namespace: &str, grants: &[String]) {
        let Ok(files) = fs::read_dir(&self.0) else {
            return;
        };
        let paths = files.filter_map(|file| Some(file.ok()?.path()));
        let kept = paths.filter(|path| path.extension().is_some_and(|end| end == "json"));
        for path in kept.take(FILES) {
            let is_its = |kept: Kept| kept.namespace == namespace && grants.contains(&kept.grant);
            if read(&path).is_some_and(is_its) {
                // It opens nothing any more.
                let _ = fs::remove_file(&path);
            }
        }
    }
}

impl Locked {
    /// What is kept by now.
    pub(crate) fn read(&self) -> Option<Kept> {
        read(&self.folder.join(format!("{}.json", self.name)))
    }

    /// Keeps it: written beside the file and renamed, so that nobody reads half of it.
    pub(crate) fn write(&self, kept: &Kept) -> Result<(), Failure> {
        let path = self.folder.join(format!("{}.json", self.name));
        let beside = self.folder.join(format!("{}.new", self.name));
        let write = || -> io::Result<()> {
            // What somebody who was ended left.
            let _ = fs::remove_file(&beside);
            let text = serde_json::to_string(kept)?;
            let mut options = OpenOptions::new();
            let opened = options.write(true).create_new(true).mode(0o600);
            let mut file = opened.open(&beside)?;
            file.write_all(text.as_bytes())?;
            fs::rename(&beside, &path)
        };
        write().map_err(|error| unwritten(&path, &error))
    }
}

fn read(path: &Path) -> Option<Kept> {
    let mut text = String::new();
    let file = File::open(path).ok()?;
    file.take(MOST).read_to_string(&mut text).ok()?;
    serde_json::from_str(&text).ok()
}

fn unwritten(path: &Path, error: &io::Error) -> Failure {
    let what = format!("cannot write {}: {error}", path.display());
    let mend = "name a folder that you may write to by the variable XDG_CACHE_HOME";
    Failure::new(Exit::Failed, &what, mend)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kept(grant: &str) -> Kept {
        Kept {
            grant: grant.to_owned(),
            namespace: "team-a".to_owned(),
            certificate: "CERT".to_owned(),
            key: "KEY".to_owned(),
            token: None,
            authority: "CA".to_owned(),
            since: "2027-01-31T12:00:00Z".parse().unwrap(),
            until: "2027-01-31T13:00:00Z".parse().unwrap(),
        }
    }

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().permissions().mode() & 0o777
    }

    #[test]
    fn what_is_kept_is_the_owners_alone_and_read_again() {
        let place = tempfile::tempdir().unwrap();
        let folder = place.path().join("covey/credentials");
        fs::create_dir_all(&folder).unwrap();
        fs::set_permissions(&folder, fs::Permissions::from_mode(0o755)).unwrap();
        let cache = Cache::below(place.path()).unwrap();
        assert_eq!(mode(&folder), 0o700);
        assert!(cache.read("a").is_none());
        cache.lock("a").unwrap().write(&kept("demo-x")).unwrap();
        let locked = cache.lock("a").unwrap();
        locked.write(&kept("demo-y")).unwrap();
        assert_eq!(locked.read().unwrap().grant, "demo-y");
        assert_eq!(mode(&folder.join("a.json")), 0o600);
        fs::write(folder.join("a.json"), "{").unwrap();
        assert!(cache.read("a").is_none(), "half a file is none");
    }

    #[test]
    fn one_at_a_time_writes_and_a_grant_that_ended_is_forgotten() {
        let place = tempfile::tempdir().unwrap();
        let cache = Cache::below(place.path()).unwrap();
        let held = cache.lock("a").unwrap();
        let other = cache.clone();
        let waits = std::thread::spawn(move || {
            let locked = other.lock("a").unwrap();
            locked.read().unwrap().grant
        });
        held.write(&kept("first")).unwrap();
        drop(held);
        assert_eq!(waits.join().unwrap(), "first");
        cache.lock("b").unwrap().write(&kept("second")).unwrap();
        cache.forget("team-b", &["first".to_owned()]);
        assert!(cache.read("a").is_some());
        cache.forget("team-a", &["first".to_owned()]);
        assert!(cache.read("a").is_none() && cache.read("b").is_some());
    }
}
