//! How connections of other protocols begin: the first segment, with the values in it made up anew each time.

use super::random::Random;

/// Makes the first segment of a connection.
pub type Opening = fn(&mut Random) -> Vec<u8>;

/// Every protocol here, by name. First the text protocols, then those whose first bytes may pass for a size prefix.
pub const PROTOCOLS: [(&str, Opening); 34] = [
    ("HTTP/1.1", http),
    ("HTTP/2 and gRPC", http2),
    ("Redis", redis),
    ("SSH", ssh),
    ("SMTP and FTP", greeting),
    ("NATS", nats),
    ("TLS", tls),
    ("DNS over TCP", dns),
    ("PostgreSQL startup", postgres_startup),
    ("PostgreSQL SSLRequest and CancelRequest", postgres_ssl),
    ("MySQL", mysql),
    ("MongoDB", mongodb),
    ("Cassandra", cassandra),
    ("MQTT", mqtt),
    ("AMQP 0-9-1 and 1.0", amqp),
    ("OpenWire", openwire),
    ("Pulsar", pulsar),
    ("RocketMQ", rocketmq),
    ("SMPP bind", smpp_bind),
    ("SMPP, joined later", smpp_submit),
    ("Diameter", diameter),
    ("Thrift framed, strict", thrift),
    ("Thrift framed, old", thrift_old),
    ("Avro RPC", avro),
    ("length-prefixed JSON", json),
    ("length-prefixed protobuf", protobuf),
    ("ZooKeeper, first connection", zookeeper),
    ("ZooKeeper, reconnection", zookeeper_again),
    ("Gearman", gearman),
    ("Aerospike", aerospike),
    ("iSCSI", iscsi),
    ("Modbus/TCP", modbus),
    ("TPKT (RDP, S7, H.323)", tpkt),
    ("DCE/RPC and SMB", dce_rpc),
];

fn http(random: &mut Random) -> Vec<u8> {
    let method = pick(random, &["GET", "POST", "PUT", "HEAD", "OPTIONS", "CONNECT"]);
    let (path, host, agent) = (word(random, 1, 40), word(random, 3, 20), word(random, 3, 60));
    format!("{method} /{path} HTTP/1.1\r\nHost: {host}\r\nUser-Agent: {agent}\r\nAccept: */*\r\n\r\n").into_bytes()
}

fn http2(random: &mut Random) -> Vec<u8> {
    let mut settings = Vec::new();
    for _ in 0..random.below(5) {
        settings.extend(parts(&[&be16(random.below(7)), &be32(random.below(1 << 24))]));
    }
    let frame = parts(&[&be32(settings.len() << 8 | 4), &[0], &be32(0), &settings]);
    [&b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"[..], &frame].concat()
}

fn redis(random: &mut Random) -> Vec<u8> {
    let words: Vec<String> = (0..1 + random.below(5)).map(|_| word(random, 1, 20)).collect();
    let bulk: String = words.iter().map(|word| format!("${}\r\n{word}\r\n", word.len())).collect();
    format!("*{}\r\n{bulk}", words.len()).into_bytes()
}

fn ssh(random: &mut Random) -> Vec<u8> {
    format!("SSH-2.0-{}_{}\r\n", word(random, 3, 12), random.below(100)).into_bytes()
}

fn greeting(random: &mut Random) -> Vec<u8> {
    format!("220 {} {}\r\n", word(random, 4, 30), word(random, 4, 30)).into_bytes()
}

fn nats(random: &mut Random) -> Vec<u8> {
    format!("CONNECT {{\"verbose\":false,\"name\":\"{}\"}}\r\nPING\r\n", word(random, 0, 30)).into_bytes()
}

fn tls(random: &mut Random) -> Vec<u8> {
    let (hello, session) = (bytes(random, 32), bytes(random, 32));
    let ciphers = random.below(40) * 2;
    let ciphers = parts(&[&be16(ciphers), &bytes(random, ciphers)]);
    let extensions = random.below(900);
    let extensions = parts(&[&be16(extensions), &bytes(random, extensions)]);
    let body = parts(&[&[3, 3], &hello, &[32], &session, &ciphers, &[1, 0], &extensions]);
    let handshake = parts(&[&be32(1 << 24 | body.len()), &body]);
    parts(&[&[22, 3, random.below(4) as u8], &be16(handshake.len()), &handshake])
}

fn dns(random: &mut Random) -> Vec<u8> {
    let flags = [0x0100, 0x0120, 0x0000, 0x0010][random.below(4)];
    let edns = random.below(2);
    let mut message = parts(&[&bytes(random, 2), &be16(flags), &be16(1), &be16(0), &be16(0), &be16(edns)]);
    for _ in 0..1 + random.below(3) {
        let label = word(random, 1, 24);
        message.push(label.len() as u8);
        message.extend(label.bytes());
    }
    message.extend([0, 0, 1, 0, 1]);
    message.extend_from_slice(if edns == 1 { &[0, 0, 41, 0x10, 0, 0, 0, 0, 0, 0, 0] } else { &[] });
    parts(&[&be16(message.len()), &message])
}

fn postgres_startup(random: &mut Random) -> Vec<u8> {
    let mut body = parts(&[&be16(3), &be16(random.below(3))]);
    for key in ["user", "database", "application_name"].iter().take(1 + random.below(3)) {
        body.extend(parts(&[key.as_bytes(), &[0], word(random, 1, 16).as_bytes(), &[0]]));
    }
    body.push(0);
    parts(&[&be32(body.len() + 4), &body])
}

fn postgres_ssl(random: &mut Random) -> Vec<u8> {
    match random.below(2) {
        0 => parts(&[&be32(8), &be32(80_877_103)]),
        _ => parts(&[&be32(16), &be32(80_877_102), &be32(random.below(1 << 22)), &bytes(random, 4)]),
    }
}

fn mysql(random: &mut Random) -> Vec<u8> {
    let body = match random.below(3) {
        0 => parts(&[&[10], b"8.0.36\0", &bytes(random, 4), &bytes(random, 30), b"caching_sha2_password\0"]),
        1 => parts(&[&[0x85, 0xa6, 0xff, 1, 0, 0, 0, 1, 45], &[0; 23], word(random, 3, 12).as_bytes(), &[0]]),
        _ => parts(&[&[3], b"select ", word(random, 1, 20).as_bytes()]),
    };
    parts(&[&(body.len() as u32).to_le_bytes()[..3], &[random.below(2) as u8], &body])
}

fn mongodb(random: &mut Random) -> Vec<u8> {
    let length = random.below(400);
    let body = bytes(random, length);
    let (request, code) = (random.below(1 << 20) as u32, [2004u32, 2013, 2012][random.below(3)]);
    let total = body.len() as u32 + 16;
    parts(&[&total.to_le_bytes(), &request.to_le_bytes(), &[0; 4], &code.to_le_bytes(), &body])
}

fn cassandra(random: &mut Random) -> Vec<u8> {
    let (version, stream) = (3 + random.below(3), random.below(128));
    let code = [1, 5, 7, 11][random.below(4)];
    let body = parts(&[&be16(1), &be16(11), b"CQL_VERSION", &be16(5), b"3.0.0"]);
    parts(&[&[version as u8, 0], &be16(stream), &[code], &be32(body.len()), &body])
}

fn mqtt(random: &mut Random) -> Vec<u8> {
    let client = word(random, 1, 40);
    let body = parts(&[&be16(4), b"MQTT", &[4, 2], &be16(60), &be16(client.len()), client.as_bytes()]);
    parts(&[&[0x10, body.len() as u8], &body])
}

fn amqp(random: &mut Random) -> Vec<u8> {
    parts(&[b"AMQP", [&[0, 0, 9, 1], &[0, 1, 0, 0], &[3, 1, 0, 0]][random.below(3)]])
}

fn openwire(random: &mut Random) -> Vec<u8> {
    let length = 200 + random.below(200);
    let body = parts(&[&[1], b"ActiveMQ", &be32(12), &[1], &bytes(random, length)]);
    parts(&[&be32(body.len()), &body])
}

fn pulsar(random: &mut Random) -> Vec<u8> {
    let version = word(random, 1, 30);
    let connect = parts(&[&[10, version.len() as u8], version.as_bytes(), &[26, 0, 32, 19]]);
    let command = match random.below(3) {
        0 => vec![8, 18, 146, 1, 0],
        _ => parts(&[&[8, 2, 18, connect.len() as u8], &connect]),
    };
    parts(&[&be32(command.len() + 4), &be32(command.len()), &command])
}

fn rocketmq(random: &mut Random) -> Vec<u8> {
    let header = format!("{{\"code\":{},\"language\":\"JAVA\",\"opaque\":{}}}", random.below(400), random.below(9999));
    let length = random.below(300);
    let body = bytes(random, length);
    parts(&[&be32(4 + header.len() + body.len()), &be32(header.len()), header.as_bytes(), &body])
}

fn smpp_bind(random: &mut Random) -> Vec<u8> {
    let (bind, sequence) = ([1, 2, 9][random.below(3)], 1 + random.below(3));
    smpp(random, bind, sequence, &[0x34, 0, 0, 0])
}

/// A connection that was open before the capture began: its sequence numbers have grown.
fn smpp_submit(random: &mut Random) -> Vec<u8> {
    let (command, sequence) = ([4, 5, 0x15][random.below(3)], random.below(1 << 22));
    smpp(random, command, sequence, &[0, 1, 1])
}

fn smpp(random: &mut Random, command: usize, sequence: usize, rest: &[u8]) -> Vec<u8> {
    let body = match command {
        0x15 => Vec::new(),
        4 | 5 => {
            parts(&[&[0], rest, word(random, 8, 12).as_bytes(), &[0, 1, 1], word(random, 8, 12).as_bytes(), &[0; 9]])
        }
        _ => parts(&[word(random, 3, 15).as_bytes(), &[0], word(random, 3, 8).as_bytes(), &[0], rest]),
    };
    parts(&[&be32(body.len() + 16), &be32(command), &be32(0), &be32(sequence), &body])
}

fn diameter(random: &mut Random) -> Vec<u8> {
    let (code, flags) = ([257, 258, 272, 280, 316][random.below(5)], [0x80, 0x40, 0][random.below(3)]);
    let length = 4 * random.below(60);
    let (ids, avps) = (bytes(random, 8), bytes(random, length));
    let total = 20 + avps.len();
    parts(&[&be32(1 << 24 | total), &be32(flags << 24 | code), &be32(0), &ids, &avps])
}

fn thrift(random: &mut Random) -> Vec<u8> {
    let (name, length) = (word(random, 1, 20), random.below(200));
    let arguments = bytes(random, length);
    let call = parts(&[&[0x80, 1, 0, 1], &be32(name.len()), name.as_bytes(), &be32(random.below(1000)), &arguments]);
    parts(&[&be32(call.len()), &call])
}

fn thrift_old(random: &mut Random) -> Vec<u8> {
    let (name, length) = (word(random, 1, 20), random.below(200));
    let arguments = bytes(random, length);
    let call = parts(&[&be32(name.len()), name.as_bytes(), &[1], &be32(random.below(1000)), &arguments]);
    parts(&[&be32(call.len()), &call])
}

fn avro(random: &mut Random) -> Vec<u8> {
    let length = 16 + random.below(100);
    let handshake = bytes(random, length);
    parts(&[&be32(1 + random.below(100)), &be32(1 + random.below(6)), &be32(length), &handshake])
}

fn json(random: &mut Random) -> Vec<u8> {
    let text = format!("{{\"id\":{},\"method\":\"{}\"}}", random.below(1000), word(random, 1, 40));
    parts(&[&be32(text.len()), text.as_bytes()])
}

fn protobuf(random: &mut Random) -> Vec<u8> {
    let (name, id) = (word(random, 1, 30), random.below(128) as u8);
    let message = parts(&[&[8, id, 18, name.len() as u8], name.as_bytes(), &[24, 1, 34, 4], &bytes(random, 4)]);
    parts(&[&be32(message.len()), &message])
}

fn zookeeper(random: &mut Random) -> Vec<u8> {
    zookeeper_connect(random, 0, 0)
}

/// A client that comes back names the last transaction that it has seen: the leader's epoch and a counter.
fn zookeeper_again(random: &mut Random) -> Vec<u8> {
    let (epoch, counter) = (random.below(300), random.below(1 << 21));
    zookeeper_connect(random, epoch, counter)
}

fn zookeeper_connect(random: &mut Random, epoch: usize, counter: usize) -> Vec<u8> {
    let session = if epoch == 0 { vec![0; 24] } else { bytes(random, 24) };
    let timeout = be32([6000, 18_000, 30_000][random.below(3)]);
    let password = parts(&[&be32(16), &session[8..]]);
    parts(&[&be32(45), &be32(0), &be32(epoch), &be32(counter), &timeout, &session[..8], &password, &[0]])
}

fn gearman(random: &mut Random) -> Vec<u8> {
    let (code, function) = (1 + random.below(36), word(random, 2, 20));
    let body = if random.below(3) == 0 { Vec::new() } else { parts(&[function.as_bytes(), b"\0unique\0data"]) };
    parts(&[b"\0REQ", &be32(code), &be32(body.len()), &body])
}

fn aerospike(random: &mut Random) -> Vec<u8> {
    let body = format!("{}\n", pick(random, &["node", "build\nfeatures", "partition-generation", "a"]));
    parts(&[&[2, 1, 0, 0], &be32(body.len()), body.as_bytes()])
}

fn iscsi(random: &mut Random) -> Vec<u8> {
    let (code, lun) = ([0x43, 0x01, 0x00, 0x40][random.below(4)], random.below(256));
    let segment = [0, 0, random.below(512)][random.below(3)];
    let (tags, data) = (bytes(random, 32), bytes(random, segment));
    parts(&[&[code, 0x80, 0, 0], &be32(segment), &be16(lun), &[0; 6], &tags, &data])
}

fn modbus(random: &mut Random) -> Vec<u8> {
    let (unit, function) = (random.below(3) as u8, [1, 2, 3, 4, 6][random.below(5)]);
    let (id, address, count) = (random.below(2000), random.below(5000), 1 + random.below(100));
    parts(&[&be16(id), &be16(0), &be16(6), &[unit, function], &be16(address), &be16(count)])
}

fn tpkt(random: &mut Random) -> Vec<u8> {
    let body = match random.below(3) {
        0 => parts(&[&[14, 0xe0, 0, 0, 0, 0, 0], &[1, 0, 8, 0, 3, 0, 0, 0]]),
        1 => parts(&[&[17, 0xe0, 0, 0, 0, 1, 0], &[0xc1, 2, 1, 0, 0xc2, 2, 1, 2, 0xc0, 1, 10]]),
        _ => parts(&[&[8, 2], &bytes(random, 2), &[5, 4, 3, 0x88, 0x93, 0xa5]]),
    };
    parts(&[&[3, 0], &be16(body.len() + 4), &body])
}

fn dce_rpc(random: &mut Random) -> Vec<u8> {
    let length = 60 + random.below(100);
    let body = bytes(random, length);
    match random.below(2) {
        0 => parts(&[&[5, 0, 11, 3, 16, 0, 0, 0], &(length as u16).to_le_bytes(), &[0; 2], &body]),
        _ => parts(&[&be32(length + 4), [b"\xffSMB", b"\xfeSMB"][random.below(2)], &body]),
    }
}

fn parts(parts: &[&[u8]]) -> Vec<u8> {
    parts.concat()
}

fn be16(value: usize) -> [u8; 2] {
    (value as u16).to_be_bytes()
}

fn be32(value: usize) -> [u8; 4] {
    (value as u32).to_be_bytes()
}

fn pick<'a>(random: &mut Random, of: &[&'a str]) -> &'a str {
    of[random.below(of.len())]
}

fn bytes(random: &mut Random, count: usize) -> Vec<u8> {
    (0..count).map(|_| random.below(256) as u8).collect()
}

/// Lower-case letters, as many as `least` to `most`.
fn word(random: &mut Random, least: usize, most: usize) -> String {
    (0..least + random.below(most - least + 1)).map(|_| char::from(b'a' + random.below(26) as u8)).collect()
}
