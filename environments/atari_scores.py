"""Atari scores: human-normalized scores of the usual 57 games.

A normalized score is 0 for an agent that acts at random, and 1 for a
professional tester. Their scores are those of Wang et al. 2016, "Dueling
network architectures", table 2: means over episodes of at most 30 minutes,
which begin with up to 30 no-ops.
"""

import math
import re

# Score of a random agent and of a human, by game.
_SCORES = {
  "Alien": (227.8, 7_127.7),
  "Amidar": (5.8, 1_719.5),
  "Assault": (222.4, 742.0),
  "Asterix": (210.0, 8_503.3),
  "Asteroids": (719.1, 47_388.7),
  "Atlantis": (12_850.0, 29_028.1),
  "BankHeist": (14.2, 753.1),
  "BattleZone": (2_360.0, 37_187.5),
  "BeamRider": (363.9, 16_926.5),
  "Berzerk": (123.7, 2_630.4),
  "Bowling": (23.1, 160.7),
  "Boxing": (0.1, 12.1),
  "Breakout": (1.7, 30.5),
  "Centipede": (2_090.9, 12_017.0),
  "ChopperCommand": (811.0, 7_387.8),
  "CrazyClimber": (10_780.5, 35_829.4),
  "Defender": (2_874.5, 18_688.9),
  "DemonAttack": (152.1, 1_971.0),
  "DoubleDunk": (-18.6, -16.4),
  "Enduro": (0.0, 860.5),
  "FishingDerby": (-91.7, -38.7),
  "Freeway": (0.0, 29.6),
  "Frostbite": (65.2, 4_334.7),
  "Gopher": (257.6, 2_412.5),
  "Gravitar": (173.0, 3_351.4),
  "Hero": (1_027.0, 30_826.4),
  "IceHockey": (-11.2, 0.9),
  "Jamesbond": (29.0, 302.8),
  "Kangaroo": (52.0, 3_035.0),
  "Krull": (1_598.0, 2_665.5),
  "KungFuMaster": (258.5, 22_736.3),
  "MontezumaRevenge": (0.0, 4_753.3),
  "MsPacman": (307.3, 6_951.6),
  "NameThisGame": (2_292.3, 8_049.0),
  "Phoenix": (761.4, 7_242.6),
  "Pitfall": (-229.4, 6_463.7),
  "Pong": (-20.7, 14.6),
  "PrivateEye": (24.9, 69_571.3),
  "Qbert": (163.9, 13_455.0),
  "Riverraid": (1_338.5, 17_118.0),
  "RoadRunner": (11.5, 7_845.0),
  "Robotank": (2.2, 11.9),
  "Seaquest": (68.4, 42_054.7),
  "Skiing": (-17_098.1, -4_336.9),
  "Solaris": (1_236.3, 12_326.7),
  "SpaceInvaders": (148.0, 1_668.7),
  "StarGunner": (664.0, 10_250.0),
  "Surround": (-10.0, 6.5),
  "Tennis": (-23.8, -8.3),
  "TimePilot": (3_568.0, 5_229.2),
  "Tutankham": (11.4, 167.6),
  "UpNDown": (533.4, 11_693.2),
  "Venture": (0.0, 1_187.5),
  "VideoPinball": (16_256.9, 17_667.9),
  "WizardOfWor": (563.5, 4_756.5),
  "YarsRevenge": (3_092.9, 54_576.9),
  "Zaxxon": (32.5, 9_173.3),
}
# gymnasium's id of a game.
_ID = re.compile(r"ALE/(?P<game>\w+)-v\d+")


def normalize(environment: str, score: float) -> float:
  """Returns the human-normalized score of a game, nan for other environments.

  Args:
    environment: gymnasium's id, such as 'ALE/Pong-v5'.
  """
  match = _ID.fullmatch(environment)
  random, human = _SCORES.get(match["game"] if match else "", (0.0, math.nan))
  return (score - random) / (human - random)
