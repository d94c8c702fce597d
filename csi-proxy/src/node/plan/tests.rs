//! Laws of the calls on a node, over any order of them, broken off after any step, with disks that
//! are empty, formatted, or somebody else's.
//!
//! Invariant: the played node does what actions say and nothing else, and refuses what a kernel would.

use proptest::prelude::*;
use tonic::Code;

use super::*;

const STAGING: &str = "/k/staging";
const TARGETS: [&str; 2] = ["/k/a", "/k/b"];
const BYTES: u64 = 1 << 30;

/// A node with one disk.
struct Node {
    disk: Disk,
    content: Content,
    /// Somebody wrote something that matters.
    data: bool,
    mounts: Vec<Mount>,
    places: [Place; 2],
    remembered: bool,
    /// A mount that this node's namespace does not show.
    elsewhere: bool,
    formatted: u32,
}

impl Node {
    fn new(content: Content) -> Self {
        Self {
            disk: Disk {
                name: "sdb".to_owned(),
                number: (8, 16),
                bytes: BYTES,
                read_only: false,
            },
            content,
            data: content != Content::Empty,
            mounts: Vec::new(),
            places: [Place::Nothing; 2],
            remembered: false,
            elsewhere: false,
            formatted: 0,
        }
    }

    fn place(&mut self, path: &Path) -> &mut Place {
        let index = TARGETS.iter().position(|target| Path::new(target) == path);
        &mut self.places[index.expect("only targets are made and removed")]
    }

    fn mount(&mut self, point: &Path, root: &str, kind: &str, number: Number, read_only: bool) {
        self.mounts.push(Mount {
            number,
            root: root.into(),
            point: point.to_path_buf(),
            kind: kind.to_owned(),
            read_only,
        });
    }

    fn act(&mut self, action: Action) {
        let number = self.disk.number;
        match action {
            Action::Remember => self.remembered = true,
            Action::Forget => self.remembered = false,
            Action::Check(_) => {}
            Action::Format(filesystem) => {
                assert!(!self.data, "what somebody wrote is lost");
                assert!(self.mounts.is_empty());
                assert_eq!(self.content, Content::Empty);
                self.content = Content::Filesystem(filesystem, BYTES);
                self.formatted += 1;
            }
            Action::Mount(filesystem, read_only) => {
                assert!(
                    matches!(self.content, Content::Filesystem(found, _) if found == filesystem)
                );
                self.mount(
                    Path::new(STAGING),
                    "/",
                    filesystem.name(),
                    number,
                    read_only,
                );
                self.data |= !read_only;
            }
            Action::Grow(filesystem, at) => {
                let mount = top(&self.mounts, &at).expect("what grows is mounted");
                assert!(!mount.read_only);
                self.content = Content::Filesystem(filesystem, BYTES);
            }
            Action::MakeFolder(at) => {
                let place = self.place(&at);
                assert_eq!(*place, Place::Nothing);
                *place = Place::Folder;
            }
            Action::MakeFile(at) => {
                let place = self.place(&at);
                assert_eq!(*place, Place::Nothing);
                *place = Place::File;
            }
            Action::Bind(from, to) => {
                let source = top(&self.mounts, &from)
                    .expect("what is bound is mounted")
                    .clone();
                self.mounts.push(Mount {
                    point: to,
                    ..source
                });
            }
            Action::BindDisk(to) => {
                self.mount(&to, "/sdb", "devtmpfs", (0, 5), false);
                // Whoever has it may write anything.
                if self.content == Content::Empty {
                    (self.content, self.data) = (Content::Unknown, true);
                }
            }
            Action::MakeReadOnly(at) => {
                let mount = self.mounts.iter_mut().rev().find(|mount| mount.point == at);
                mount.expect("it is mounted").read_only = true;
            }
            Action::Unmount(at) => {
                let index = self.mounts.iter().rposition(|mount| mount.point == at);
                self.mounts.remove(index.expect("it is mounted"));
            }
            Action::RemoveFolder(at) => {
                assert!(top(&self.mounts, &at).is_none(), "below is a volume");
                assert_eq!(*self.place(&at), Place::Folder);
                *self.place(&at) = Place::Nothing;
            }
            Action::RemoveFile(at) => {
                assert!(top(&self.mounts, &at).is_none());
                assert_eq!(*self.place(&at), Place::File);
                *self.place(&at) = Place::Nothing;
            }
        }
    }

    fn seen(&mut self, target: &Path) -> Place {
        let is_device = top(&self.mounts, target).is_some_and(|m| m.kind == "devtmpfs");
        match is_device {
            true => Place::Device(self.disk.number),
            false => *self.place(target),
        }
    }

    /// Carries a call out, or its first `steps` steps; how many there were.
    fn call(&mut self, call: Call, steps: usize) -> Result<usize, Status> {
        let (mut probes, mut busy, mut checked, mut grown) = (None, None, false, false);
        for done in 0..steps {
            assert!(done < 12, "{call:?} never ends");
            let disk = self.disk.clone();
            let mounts = self.mounts.clone();
            let step = match call {
                Call::Stage(access, read_only) => stage(&Stage {
                    path: Path::new(STAGING),
                    access,
                    read_only,
                    disk: &disk,
                    mounts: &mounts,
                    stale: false,
                    remembered: self.remembered,
                    probes,
                    checked,
                    grown,
                }),
                Call::Unstage => unstage(&Unstage {
                    path: Path::new(STAGING),
                    mounts: &mounts,
                    remembered: self.remembered,
                    disk: Some(&disk).filter(|_| self.remembered),
                    busy,
                }),
                Call::Publish(access, target, read_only, alone) => publish(&Publish {
                    staging: Path::new(STAGING),
                    target: Path::new(TARGETS[target]),
                    access,
                    read_only,
                    alone,
                    disk: &disk,
                    mounts: &mounts,
                    place: self.seen(Path::new(TARGETS[target])),
                }),
                Call::Unpublish(target) => {
                    let target = Path::new(TARGETS[target]);
                    unpublish(target, &mounts, self.seen(target))
                }
            };
            match step? {
                Step::Done => return Ok(done),
                Step::Probe => {
                    probes = Some([self.content; 2]);
                    busy = Some(self.elsewhere || !self.mounts.is_empty());
                }
                Step::Do(action) => {
                    checked |= matches!(action, Action::Check(_));
                    grown |= matches!(action, Action::Grow(..));
                    // What was told before is not true any more.
                    if matches!(action, Action::Format(_)) {
                        probes = None;
                    }
                    self.act(action);
                }
            }
        }
        Ok(steps)
    }
}

#[derive(Clone, Copy, Debug)]
enum Call {
    Stage(Access, bool),
    Unstage,
    Publish(Access, usize, bool, bool),
    Unpublish(usize),
}

const ALL: usize = usize::MAX;
const MOUNT: Access = Access::Mount(None);

fn access() -> impl Strategy<Value = Access> {
    prop_oneof![
        3 => Just(MOUNT),
        1 => Just(Access::Mount(Some(Filesystem::Xfs))),
        1 => Just(Access::Block),
    ]
}

fn call() -> impl Strategy<Value = Call> {
    prop_oneof![
        (access(), prop::bool::weighted(0.2)).prop_map(|(access, ro)| Call::Stage(access, ro)),
        Just(Call::Unstage),
        (access(), 0..2_usize, any::<bool>(), any::<bool>())
            .prop_map(|(access, target, ro, alone)| Call::Publish(access, target, ro, alone)),
        (0..2_usize).prop_map(Call::Unpublish),
    ]
}

fn content() -> impl Strategy<Value = Content> {
    prop_oneof![
        3 => Just(Content::Empty),
        1 => Just(Content::Filesystem(Filesystem::Ext4, BYTES)),
        1 => Just(Content::Filesystem(Filesystem::Xfs, BYTES / 2)),
        1 => Just(Content::Foreign("somebody's")),
        1 => Just(Content::Unknown),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1000, ..ProptestConfig::default() })]

    #[test]
    fn no_order_of_calls_and_breaks_loses_data_or_leaves_anything(
        content in content(),
        calls in prop::collection::vec((call(), prop_oneof![2 => Just(ALL), 1 => 0..6_usize]), 0..40),
    ) {
        let mut node = Node::new(content);
        for (call, steps) in calls {
            let done = node.call(call, steps);
            if let (Ok(_), ALL) = (&done, steps) {
                let again = node.call(call, ALL);
                prop_assert!(matches!(again, Ok(0..=2)), "{:?} again: {:?}", call, again);
                if let Call::Unstage = call {
                    prop_assert!(node.mounts.is_empty() || !node.remembered);
                    prop_assert!(top(&node.mounts, Path::new(STAGING)).is_none());
                }
                if let Call::Unpublish(target) = call {
                    prop_assert_eq!(node.places[target], Place::Nothing);
                    prop_assert!(top(&node.mounts, Path::new(TARGETS[target])).is_none());
                }
            }
            if let Err(refusal) = done {
                prop_assert!(refusal.code != Code::Internal && refusal.code != Code::Unknown);
            }
        }
        // Whatever happened, what a kubelet does at the end clears it up.
        for call in [Call::Unpublish(0), Call::Unpublish(1), Call::Unstage] {
            node.call(call, ALL).unwrap();
        }
        prop_assert!(node.mounts.is_empty() && !node.remembered);
        prop_assert_eq!(node.places, [Place::Nothing; 2]);
        prop_assert!(node.formatted <= 1);
        if matches!(content, Content::Foreign(_) | Content::Unknown) {
            prop_assert_eq!(node.content, content, "what is not ours is as it was");
        }
    }
}

fn refused(node: &mut Node, call: Call, code: Code, sentence: &str) {
    let refusal = node.call(call, ALL).unwrap_err();
    assert_eq!(refusal.code, code, "{refusal}");
    assert!(refusal.sentence.contains(sentence), "{refusal}");
}

#[test]
fn what_cannot_be_done_is_refused_with_code_and_sentence() {
    let precondition = Code::FailedPrecondition;
    let mut luks = Node::new(Content::Foreign("an encrypted device"));
    refused(
        &mut luks,
        Call::Stage(MOUNT, false),
        precondition,
        "an encrypted device",
    );
    let mut unknown = Node::new(Content::Unknown);
    refused(
        &mut unknown,
        Call::Stage(MOUNT, false),
        precondition,
        "not formatted",
    );
    let mut empty = Node::new(Content::Empty);
    refused(
        &mut empty,
        Call::Stage(MOUNT, true),
        precondition,
        "nothing to mount",
    );
    refused(
        &mut empty,
        Call::Publish(MOUNT, 0, false, false),
        precondition,
        "not staged",
    );
    let mut ext = Node::new(Content::Filesystem(Filesystem::Ext4, BYTES));
    let xfs = Access::Mount(Some(Filesystem::Xfs));
    refused(
        &mut ext,
        Call::Stage(xfs, false),
        precondition,
        "xfs is asked for",
    );
    ext.call(Call::Stage(MOUNT, false), ALL).unwrap();
    refused(
        &mut ext,
        Call::Stage(MOUNT, true),
        Code::AlreadyExists,
        "for writing",
    );
    ext.call(Call::Publish(MOUNT, 0, true, true), ALL).unwrap();
    refused(
        &mut ext,
        Call::Publish(MOUNT, 0, false, true),
        Code::AlreadyExists,
        "reading alone",
    );
    refused(
        &mut ext,
        Call::Publish(MOUNT, 1, false, true),
        precondition,
        "at /k/a",
    );
    refused(&mut ext, Call::Unstage, precondition, "in use at /k/a");
    ext.call(Call::Unpublish(0), ALL).unwrap();
    ext.elsewhere = true;
    refused(&mut ext, Call::Unstage, precondition, "another namespace");
    let mut theirs = Node::new(Content::Empty);
    theirs.mount(Path::new(STAGING), "/", "ext4", (8, 32), false);
    refused(
        &mut theirs,
        Call::Stage(MOUNT, false),
        precondition,
        "of device 8:32",
    );
    theirs.places[0] = Place::Other;
    refused(
        &mut theirs,
        Call::Unpublish(0),
        precondition,
        "not made by this driver",
    );
}

#[test]
fn disk_that_shows_two_things_is_not_touched() {
    let disk = Node::new(Content::Empty).disk;
    let call = Stage {
        path: Path::new(STAGING),
        access: MOUNT,
        read_only: false,
        disk: &disk,
        mounts: &[],
        stale: false,
        remembered: true,
        probes: Some([Content::Empty, Content::Filesystem(Filesystem::Ext4, BYTES)]),
        checked: false,
        grown: false,
    };
    assert_eq!(stage(&call).unwrap_err().code, Code::Unavailable);
}

#[test]
fn health_is_told_by_the_disk_and_what_is_mounted_of_it() {
    let disk = Node::new(Content::Empty).disk;
    let word = |disk, mounted| health(disk, mounted).map(|(word, _)| word);
    assert_eq!(word(Some(&disk), Some(disk.number)), None);
    assert_eq!(word(Some(&disk), None), None, "a device");
    assert_eq!(word(Some(&disk), Some((8, 99))), Some("DiskReplaced"));
    assert_eq!(word(None, Some(disk.number)), Some("DiskGone"));
    assert_eq!(word(None, None), Some("DiskGone"));
}

#[test]
fn volume_that_is_larger_than_its_filesystem_grows_when_it_is_staged() {
    let mut node = Node::new(Content::Filesystem(Filesystem::Xfs, BYTES / 2));
    node.call(Call::Stage(MOUNT, false), ALL).unwrap();
    assert_eq!(node.content, Content::Filesystem(Filesystem::Xfs, BYTES));
}

#[test]
fn disk_that_came_back_under_another_number_is_let_go_of_and_mounted_anew() {
    let mut node = Node::new(Content::Filesystem(Filesystem::Ext4, BYTES));
    node.call(Call::Stage(MOUNT, false), ALL).unwrap();
    node.disk.number = (8, 99);
    let (disk, mounts) = (node.disk.clone(), node.mounts.clone());
    let call = Stage {
        path: Path::new(STAGING),
        access: MOUNT,
        read_only: false,
        disk: &disk,
        mounts: &mounts,
        stale: true,
        remembered: true,
        probes: None,
        checked: false,
        grown: false,
    };
    let unmount = Step::Do(Action::Unmount(STAGING.into()));
    assert_eq!(stage(&call), Ok(unmount.clone()));
    let another = Stage {
        stale: false,
        ..call
    };
    assert_eq!(
        stage(&another).unwrap_err().code,
        Code::FailedPrecondition,
        "it is of a disk that there is"
    );
    let gone = Unstage {
        path: Path::new(STAGING),
        mounts: &mounts,
        remembered: true,
        disk: Some(&disk),
        busy: None,
    };
    assert_eq!(unstage(&gone), Ok(unmount));
}
