# Simulates one bulk transfer, to measure the speed of ns-2.
#
#   ns bulk.tcl AGENT SEED [SECONDS] [COUNT]
#
# AGENT is tcp (TCP/Sack1 with a delayed-ack SACK sink) or sctp (ns-2's SCTP
# agent, delayed SACKs). The link has 100 Mbit/s, 10 ms each way and a drop-tail
# queue of 1000 packets. 0.1 % of the data packets are lost after the queue.
# Packets have 1500 bytes. COUNT counts the packets that leave each queue and
# prints the counts. Without it nothing is traced, because tracing takes time.

set agent [lindex $argv 0]
set seed [lindex $argv 1]
set seconds [expr {$argc > 2 ? [lindex $argv 2] : 60}]
set count [expr {$argc > 3}]

ns-random $seed
set ns [new Simulator]
remove-all-packet-headers
add-packet-header Common Flags IP TCP SCTP
set a [$ns node]
set b [$ns node]
$ns duplex-link $a $b 100Mb 10ms DropTail
$ns queue-limit $a $b 1000
$ns queue-limit $b $a 1000

set em [new ErrorModel]
$em unit pkt
$em set rate_ 0.001
$em ranvar [new RandomVariable/Uniform]
$em drop-target [new Agent/Null]
$ns lossmodel $em $a $b

if {$agent == "tcp"} {
    Agent/TCP set packetSize_ 1460
    Agent/TCP set tcpip_base_hdr_size_ 40
    Agent/TCP set window_ 5000
    Agent/TCP set windowInit_ 2
    Agent/TCP set minrto_ 1.0
    Agent/TCP set tcpTick_ 0.001
    Agent/TCP set overhead_ 0
    set source [new Agent/TCP/Sack1]
    set sink [new Agent/TCPSink/Sack1/DelAck]
    $sink set interval_ 100ms
} elseif {$agent == "sctp"} {
    set source [new Agent/SCTP]
    set sink [new Agent/SCTP]
    foreach one [list $source $sink] {
        $one set mtu_ 1500
        $one set dataChunkSize_ 1468
        $one set numOutStreams_ 1
        $one set useDelayedSacks_ 1
        $one set sackDelay_ 0.100
        $one set initialRwnd_ 7300000
        $one set initialCwnd_ 2
        $one set minRto_ 1.0
    }
} else {
    puts stderr "bulk.tcl: agent '$agent' is unknown; write tcp or sctp"
    exit 2
}
$ns attach-agent $a $source
$ns attach-agent $b $sink
$ns connect $source $sink
set ftp [new Application/FTP]
$ftp attach-agent $source

if {$count} {
    set there [$ns monitor-queue $a $b ""]
    set back [$ns monitor-queue $b $a ""]
}

proc finish {} {
    global count
    if {$count} {
        global there back
        puts "[$there set pdepartures_] [$back set pdepartures_] [$there set bdepartures_]"
    }
    exit 0
}
$ns at 0.0 "$ftp start"
$ns at $seconds "finish"
$ns run
