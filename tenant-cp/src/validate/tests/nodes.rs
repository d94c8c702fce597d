//! What machines are given, and the sentence for each mistake in it.

use super::*;

fn nodes(nodes: &Value) -> Vec<String> {
    seen(&json!({"spec": {"nodes": nodes}}))
}

fn authority() -> String {
    let key = rcgen::KeyPair::generate().unwrap();
    let params = rcgen::CertificateParams::new(vec!["corp".to_owned()]).unwrap();
    params.self_signed(&key).unwrap().pem()
}

#[test]
fn machines_may_be_given_mirrors_a_proxy_authorities_and_time() {
    let bundle = format!("# ours\n{}\n{}", authority(), authority());
    let all = json!({
        "registryMirrors": [
            {"registry": "docker.io", "endpoints": ["https://m.example/v2/proxy", "http://192.0.2.1:5000"]},
            {"registry": "registry.example.com:5000", "endpoints": ["https://m.example"]},
            {"registry": "*", "endpoints": ["https://m.example"]},
        ],
        "proxy": {"http": "http://p.example:3128", "noProxy": ["10.0.0.0/8", ".example.com"]},
        "trustedCAs": [authority(), bundle],
        "ntpServers": ["ntp.example.com", "192.0.2.7"],
    });
    assert_eq!(nodes(&all), [""; 0]);
    assert!(validate(&tc(&json!({"spec": {"nodes": all}})), &Settings::default()).is_ok());
}

#[test]
fn mistakes_in_what_machines_are_given_are_explained_without_saying_secrets_again() {
    let cut = authority().replace("-----END CERTIFICATE-----", "");
    let wrong = json!({
        "registryMirrors": [
            {"registry": "docker.io/library", "endpoints": ["m.example", "https://m.example", "https://m.example"]},
            {"registry": "ghcr.io", "endpoints": ["https://m.example"]},
            {"registry": "ghcr.io", "endpoints": ["https://me:hunter2@m.example"]},
        ],
        "proxy": {"http": "http://p.example/x", "https": "http://me:hunter2@p.example", "noProxy": ["*.example.com"]},
        "trustedCAs": ["hello", "-----BEGIN EC PRIVATE KEY-----\nhunter2\n", cut],
        "ntpServers": ["https://ntp.example.com"],
    });
    let secret =
        "a user or password cannot be given here, where everybody may read it: leave it out";
    let pem = "it is not certificates as PEM: write all of it from -----BEGIN CERTIFICATE----- to \
               -----END CERTIFICATE-----";
    let key = "there is a private key in it: give certificates alone, and make a new key, because \
               this one is no secret any more";
    let dns = "use lower-case letters, digits and -, in parts of at most 63 characters separated by \
               dots";
    let expected = [
        "registryMirrors[0].registry: \"docker.io/library\" is more than a registry's host: leave out \
         everything from the / on".to_owned(),
        "registryMirrors[0].endpoints[0]: \"m.example\" is not a URL: begin with https:// or \
         http://".to_owned(),
        "registryMirrors[0].endpoints[2]: it is named twice: remove one of them".to_owned(),
        "registryMirrors[2].registry: \"ghcr.io\" has mirrors twice: put them into one entry".to_owned(),
        format!("registryMirrors[2].endpoints[0]: {secret}"),
        "proxy.http: \"http://p.example/x\" has a path: leave it out, as in \
         http://proxy.example.com:3128".to_owned(),
        format!("proxy.https: {secret}"),
        format!(
            "proxy.noProxy[0]: \"*.example.com\" is neither an IP address nor a DNS name: {dns}; or \
             write a range, as 10.0.0.0/8"
        ),
        format!("trustedCAs[0]: {pem}"),
        format!("trustedCAs[1]: {key}"),
        format!("trustedCAs[2]: {pem}"),
        "ntpServers[0]: \"https://ntp.example.com\" is neither an IP address nor a DNS name: leave \
         out the scheme".to_owned(),
    ];
    let expected = expected.map(|text| format!("spec.nodes.{text}"));
    assert_eq!(nodes(&wrong), expected);
    assert_eq!(
        nodes(&json!({"proxy": {"noProxy": ["10.0.0.0/8"]}})),
        ["spec.nodes.proxy: name a proxy in http or https, or remove it"]
    );
}
