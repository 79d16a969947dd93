"""The DQN family: DQN, Rainbow, C51, QR-DQN, IQN, Munchausen DQN, Ape-X."""
