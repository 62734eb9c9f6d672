"""The ROS face: messages, parameters, servers and the lifecycle node around a `MemoryService`.

Nothing below this package imports rclpy, tf2 or a message.

======================================  ==============================================================
`settings`                              what can be configured, typed
`entries`, `parameters`                 the same as ROS parameters, declared once
`qos`                                   named quality-of-service profiles
`codes`                                 errors to ``error_code``, the only place
`fields`, `items`, `filters`            what messages mean in the model
`answers`, `blank`, `paging`            hits, versions and events as messages, capped in size
`cdr`                                   perception messages read from their bytes
`executor`                              moves messages, and survives what it cannot read
`answering`                             handlers that go on in the thread that has their result
`workers`                               one writer, a few readers
`guard`, `servers`                      every request is answered, whatever happens
`reading`, `writing`, `maintenance`     the handlers
`transforms`, `placement`               poses into the global frame
`inputs`, `perception`                  subscribers, and the pipeline that they feed
`stamps`                                stamps of another age
`events`, `status`, `markers`           what is published
`bond`, `log_bridge`                    what a lifecycle manager and the ROS log expect
`session`, `opening`                    what configure opens and cleanup closes
`node`, `process`, `main`               the lifecycle node and its process
======================================  ==============================================================
"""
