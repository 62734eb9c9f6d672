"""The main job on real data: a drive through a park, replayed into a running memory node.

`python -m demo` (`./dev demo`) turns the recorded drive below ``victoria_park`` into a rosbag,
replays it over DDS, asks through the node's services, and scores what the memory made of it.
"""
