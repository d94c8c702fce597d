//! Loops over a cluster and a provider that are written down here.

use proto::autoscaler::{InstanceErrorInfo, InstanceStatus};

use super::*;
use crate::protocol::Options;

const LONG: Duration = Duration::from_secs(3600);

#[derive(Clone, Default)]
struct Stage {
    provider: Loop,
    nodes: Vec<Node>,
    pods: Vec<Pod>,
    memory: Memory,
}

fn amounts(cpu: i64) -> Amounts {
    Amounts {
        cpu,
        memory: cpu,
        pods: 1,
    }
}

fn node(name: &str) -> Node {
    Node {
        name: name.to_owned(),
        provider_id: format!("test://{name}"),
        ready: true,
        allocatable: Amounts {
            pods: 10,
            ..amounts(1000)
        },
        ..Node::default()
    }
}

fn instance(name: &str, state: InstanceState, error: Option<i32>) -> Instance {
    let error_info = error.map(|class| InstanceErrorInfo {
        error_code: "Trouble".to_owned(),
        error_message: String::new(),
        instance_error_class: class,
    });
    Instance {
        id: format!("test://{name}"),
        status: Some(InstanceStatus {
            instance_state: state.into(),
            error_info,
        }),
    }
}

impl Stage {
    fn group(mut self, id: &str, target: i32) -> Self {
        self.provider.groups.push(Group {
            id: id.to_owned(),
            min: 0,
            max: 5,
            target,
            instances: Vec::new(),
            template: Some(node("template")),
            options: Options::default(),
        });
        self
    }

    /// A machine of the last group, which may be a node.
    fn machine(mut self, name: &str, state: InstanceState, error: Option<i32>) -> Self {
        let group = self.provider.groups.last_mut().unwrap();
        group.instances.push(instance(name, state, error));
        if state == InstanceState::Running {
            self.nodes.push(node(name));
            let group = group.id.clone();
            self.provider.group_of.insert(name.to_owned(), group);
        }
        self
    }

    fn pods(mut self, count: usize, cpu: i64, on: Option<&str>) -> Self {
        let pod = Pod {
            node: on.map(str::to_owned),
            requests: amounts(cpu),
            ..Pod::default()
        };
        self.pods.extend(vec![pod; count]);
        self
    }

    fn at(&mut self, now: Duration) -> Vec<Action> {
        let seen = Seen {
            now,
            provider: &self.provider,
            nodes: &self.nodes,
            pods: &self.pods,
        };
        self.memory.note(&seen);
        plan(&seen, &self.memory)
    }

    /// What a first loop does, and one much later.
    fn acts(mut self) -> [Vec<Action>; 2] {
        [self.at(Duration::ZERO), self.at(LONG)]
    }
}

fn increase(group: &str, delta: i32) -> Action {
    let group = group.to_owned();
    Action::Increase { group, delta }
}

fn drain(group: &str, nodes: &[&str]) -> Action {
    Action::Drain {
        group: group.to_owned(),
        nodes: nodes.iter().map(|name| (*name).to_owned()).collect(),
    }
}

fn remove(group: &str, names: &[&str], reason: FakeReason) -> Action {
    Action::Remove {
        group: group.to_owned(),
        instances: names.iter().map(|name| format!("test://{name}")).collect(),
        reason,
    }
}

#[test]
fn a_group_grows_from_zero_by_what_pods_need_and_no_further_than_its_most() {
    let stage = Stage::default().group("a", 0);
    let [first, _] = stage.clone().pods(4, 500, None).acts();
    assert_eq!(first, [increase("a", 2)]);
    let [first, _] = stage.clone().pods(9, 1000, None).acts();
    assert_eq!(first, [increase("a", 5)]);
    let [first, _] = stage.pods(1, 1001, None).acts();
    assert_eq!(first, []);
}

#[test]
fn what_is_on_its_way_is_not_asked_for_again() {
    let stage = Stage::default().group("a", 2);
    let [first, _] = stage.pods(2, 900, None).acts();
    assert_eq!(first, []);
}

#[test]
fn a_node_that_is_ready_and_tainted_still_is_on_its_way() {
    let mut stage = Stage::default()
        .group("a", 1)
        .machine("a-1", InstanceState::Running, None)
        .pods(1, 900, None);
    stage.nodes[0].taints = vec![crate::cluster::Taint {
        key: "node.kubernetes.io/not-ready".to_owned(),
        value: String::new(),
        effect: "NoSchedule".to_owned(),
    }];
    assert_eq!(stage.at(Duration::ZERO), []);
}

#[test]
fn a_group_without_resources_is_left_alone_and_another_one_grows() {
    let mut stage = Stage::default()
        .group("a", 1)
        .machine("a-1", InstanceState::Creating, Some(1))
        .group("b", 0)
        .pods(1, 900, None);
    let tidied = stage.at(Duration::ZERO);
    assert_eq!(tidied, [remove("a", &["a-1"], FakeReason::CreateError)]);
    stage.provider.groups[0].instances.clear();
    stage.provider.groups[0].target = 0;
    assert_eq!(stage.at(Duration::from_secs(10)), [increase("b", 1)]);
    // Later it is as good as any other.
    assert_eq!(stage.at(LONG), [increase("a", 1)]);
}

#[test]
fn a_machine_that_does_not_become_a_node_goes_after_its_time() {
    let stage = Stage::default().group("a", 1);
    let [first, later] = stage.machine("a-1", InstanceState::Creating, None).acts();
    assert_eq!(first, []);
    assert_eq!(later, [remove("a", &["a-1"], FakeReason::Unregistered)]);
}

#[test]
fn a_size_that_no_machine_follows_is_put_right_after_its_time() {
    let [first, later] = Stage::default().group("a", 3).acts();
    assert_eq!(first, []);
    let group = "a".to_owned();
    assert_eq!(later, [Action::Decrease { group, delta: -3 }]);
}

#[test]
fn machines_that_go_count_for_nothing() {
    let stage = Stage::default().group("a", 0);
    let [first, later] = stage.machine("a-1", InstanceState::Deleting, None).acts();
    assert!(first.is_empty() && later.is_empty());
}

#[test]
fn empty_nodes_go_together_and_one_with_pods_alone() {
    let two = Stage::default()
        .group("a", 2)
        .machine("a-1", InstanceState::Running, None)
        .machine("a-2", InstanceState::Running, None);
    let [first, later] = two.clone().acts();
    assert_eq!(first, []);
    assert_eq!(later, [drain("a", &["a-1", "a-2"])]);

    let mut used = two.pods(1, 300, Some("a-1")).pods(1, 300, Some("a-2"));
    let [_, later] = used.clone().acts();
    assert_eq!(later, [drain("a", &["a-1"])]);
    used.pods.iter_mut().for_each(|pod| pod.fixed = true);
    let [_, later] = used.acts();
    assert_eq!(later, []);
}

#[test]
fn a_node_that_a_waiting_pod_is_about_to_use_stays() {
    let stage = Stage::default()
        .group("a", 1)
        .machine("a-1", InstanceState::Running, None);
    let [first, later] = stage.pods(1, 300, None).acts();
    assert!(first.is_empty() && later.is_empty());
}

#[test]
fn nothing_goes_below_the_least_or_where_it_is_forbidden() {
    let mut stage = Stage::default()
        .group("a", 2)
        .machine("a-1", InstanceState::Running, None)
        .machine("a-2", InstanceState::Running, None);
    stage.provider.groups[0].min = 1;
    let [_, later] = stage.clone().acts();
    assert_eq!(later, [drain("a", &["a-1"])]);
    let forbid = (SCALE_DOWN_DISABLED.to_owned(), "true".to_owned());
    stage.nodes[0].annotations.extend([forbid]);
    let [_, later] = stage.acts();
    assert_eq!(later, [drain("a", &["a-2"])]);
}
